"""One step of learning: the log-probs that the method needs, micro-batched backward, optimiser steps, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar, cast

import torch
from torch import Tensor

from vlrft.algorithms import Algorithm
from vlrft.engine import TrainEngine
from vlrft.engine.forward import token_logprobs
from vlrft.objectives import GroupCoupled, LossBatch, Needs, Terms, guard, log_ratio
from vlrft.objectives.kl import kl
from vlrft.policy.logprobs import packed_logprobs, self_check
from vlrft.policy.policy import Policy
from vlrft.schema.errors import NonFiniteError
from vlrft.tracing.phases import work_on
from vlrft.trainer.batch import Batch
from vlrft.trainer.micro_batches import Part, agreed, parts
from vlrft.trainer.update_metrics import UpdateMetrics

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """An optimiser step that was not taken, because a number in it was not finite."""

    reason: str
    samples: tuple[str, ...]


def update(
    engine: TrainEngine,
    batches: Sequence[Batch],
    algorithm: Algorithm,
    max_tokens: int,
    reference: Policy | None = None,
) -> tuple[dict[str, float], list[Skipped]]:
    """One optimiser step a batch; all batches come from the same policy. `max_tokens`: budget of a micro-batch.

    A step whose log-probs, loss or gradient are not finite is not taken; it comes back among the skipped.
    """
    needs, ranks = algorithm.needs, engine.ranks
    cut = [parts(batch, max_tokens, engine.policy, ranks) for batch in batches]
    pairs = list(zip(batches, cut, strict=True))
    if len(batches) > 1 and needs.old_logprobs:
        pairs = [(_with_old(batch, own, engine.policy, needs), own) for batch, own in pairs]
    figures = UpdateMetrics()
    skipped: list[Skipped] = []
    for batch, own in pairs:
        try:
            if needs.group_stats and len(own) > 1:
                batch = _with_stats(batch, own, engine, algorithm, reference)
            for part in own:
                _backward(engine, part.of(batch), algorithm, reference, figures)
            figures.put(engine.step())
        except NonFiniteError as e:
            engine.discard()
            samples = e.samples or [s for p in ranks.gather(batch.distinct_samples()) for s in p]
            skipped.append(Skipped(reason=str(e), samples=tuple(samples)))
    return figures.summary(ranks), skipped


def check_packing(policy: Policy, batch: Batch, max_tokens: int) -> None:
    """The first micro-batch's packed forward must equal the replicated one; raises SelfCheckError with the sample."""
    for micro in islice(batch.micro_batches(max_tokens), 1):
        mask, temperature = micro.loss.mask, micro.temperature
        self_check(policy, micro.items(), mask=mask, temperature=temperature, names=micro.samples)


def _backward(
    engine: TrainEngine,
    micro: Batch,
    algorithm: Algorithm,
    reference: Policy | None,
    figures: UpdateMetrics,
) -> None:
    """Adds one micro-batch's gradient. Raises NonFiniteError with the samples at fault, on every rank."""
    needs, mask = algorithm.needs, micro.loss.mask
    work_on(micro.samples)
    scores = token_logprobs(
        engine, micro.items(), mask, micro.temperature, needs.entropy, micro.fillers
    )
    now = scores.logprobs.detach()
    ref = _reference_logprobs(micro, needs, reference)

    def judge() -> tuple[LossBatch, Tensor, Terms]:
        rows = _filled(micro, now, needs, ref)
        if needs.entropy:
            rows = replace(rows, entropy=scores.entropy)
        loss, terms = algorithm.loss(scores.logprobs, rows)
        if not bool(torch.isfinite(loss.detach())):
            raise NonFiniteError(f"the loss is {float(loss)}")
        return rows, loss, terms

    rows, loss, terms = agreed(engine.ranks, lambda: _naming(micro, judge), micro.samples)
    engine.backward(loss)
    if not micro.ids:
        return
    figures.add("loss", float(loss.detach()))
    figures.put(terms.scalars)
    figures.watch(rows.mask, {"entropy": scores.entropy, **_drift(now, rows), **terms.observed})


def _naming(micro: Batch, work: Callable[[], T]) -> T:
    """What `work` gives; a NonFiniteError names the samples of the rows at fault."""
    try:
        return work()
    except NonFiniteError as e:
        at_fault = tuple(dict.fromkeys(micro.samples[b] for b in e.rows))
        raise NonFiniteError(str(e), e.rows, at_fault or micro.distinct_samples()) from None


def _reference_logprobs(micro: Batch, needs: Needs, reference: Policy | None) -> Tensor | None:
    """Those of the rows under the reference, where they are needed and not known yet."""
    if not needs.ref_logprobs or micro.loss.ref_logprobs is not None:
        return None
    assert reference is not None
    return _without_gradient(reference, micro)


def _filled(micro: Batch, now: Tensor, needs: Needs, ref: Tensor | None) -> LossBatch:
    """The rows with old and reference log-probs, on the log-probs' device and in their dtype."""
    rows = micro.loss.to(now.device, now.dtype)
    if rows.old_logprobs is None:  # one update a batch of rollouts: the policy still is the old one
        rows = replace(rows, old_logprobs=_old(rows, now, needs))
    if ref is not None:
        rows = replace(rows, ref_logprobs=guard(ref, rows.mask, "reference log-probs"))
    return rows


def _old(rows: LossBatch, now: Tensor, needs: Needs) -> Tensor:
    """Log-probs under the policy that sampled: the present one, or for replayed rollouts what is stored with them."""
    if needs.replay_old == "recomputed" or rows.replayed is None or rows.sampled_logprobs is None:
        return now
    return torch.where(rows.replayed[:, None], rows.sampled_logprobs.to(now), now)


def _with_stats(
    batch: Batch,
    own: Sequence[Part],
    engine: TrainEngine,
    algorithm: Algorithm,
    reference: Policy | None,
) -> Batch:
    """The batch with what its rows must know of their groups, when a group may not fit into one micro-batch."""
    needs = algorithm.needs
    shape = batch.loss.mask.shape
    filled = {k: torch.zeros(shape, dtype=torch.float64) for k in ("now", "old", "ref")}
    for part in own:
        micro = part.of(batch)
        work_on(micro.samples)
        now = _without_gradient(engine.policy, micro)
        ref = _reference_logprobs(micro, needs, reference)
        fill = partial(_filled, micro, now, needs, ref)
        found = agreed(engine.ranks, partial(_naming, micro, fill), micro.samples)
        given = {"now": now, "old": found.old_logprobs, "ref": found.ref_logprobs}
        for key, values in given.items():
            if values is not None:
                filled[key][part.rows, : values.shape[1]] = values.double().cpu()
    ref = filled["ref"] if needs.ref_logprobs else None
    whole = replace(batch.loss, old_logprobs=filled["old"], ref_logprobs=ref)
    coupled = cast(GroupCoupled, algorithm.objective)
    work = partial(coupled.group_stats, filled["now"], whole)
    stats = agreed(engine.ranks, work, batch.distinct_samples())
    return replace(batch, loss=replace(whole, stats=stats))


def _drift(now: Tensor, rows: LossBatch) -> dict[str, Tensor]:
    """How far the policy is from the one before the step, and the trainer's numbers from the sampler's."""
    assert rows.old_logprobs is not None
    drift = {
        "ratio": log_ratio(now, rows.old_logprobs).exp(),
        "kl/old": kl(now, rows.old_logprobs, "k3"),
    }
    if rows.sampled_logprobs is not None:
        gap = log_ratio(now, rows.sampled_logprobs).abs()
        drift["sampler_gap"] = gap.nan_to_num(nan=0.0)  # answers that were not sampled
    return drift


def _without_gradient(policy: Policy, part: Batch) -> Tensor:
    with torch.no_grad():
        found = packed_logprobs(
            policy,
            part.items(),
            mask=part.loss.mask,
            temperature=part.temperature,
            fillers=part.fillers,
        )
    return found.logprobs


def _with_old(batch: Batch, own: Sequence[Part], policy: Policy, needs: Needs) -> Batch:
    """The batch with the log-probs under the policy before the first of several updates."""
    old = torch.zeros(batch.loss.mask.shape, dtype=torch.float64)
    for part in own:
        micro = part.of(batch)
        work_on(micro.samples)
        found = _without_gradient(policy, micro)
        values = _old(micro.loss.to(found.device, found.dtype), found, needs)
        old[part.rows, : values.shape[1]] = values.double().cpu()
    return replace(batch, loss=replace(batch.loss, old_logprobs=old))
