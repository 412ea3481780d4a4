"""One step of learning: the log-probs that the method needs, micro-batched backward, optimiser steps, figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

import torch
from torch import Tensor

from vlrft.algorithms import Algorithm
from vlrft.batch import Batch
from vlrft.engine import TrainEngine
from vlrft.objectives import GroupCoupled, LossBatch, Needs, NonFiniteError, guard, log_ratio
from vlrft.objectives.kl import kl
from vlrft.policy.load import Policy
from vlrft.policy.logprobs import packed_logprobs, self_check


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
    needs = algorithm.needs
    if len(batches) > 1 and needs.old_logprobs:
        batches = [_with_old(batch, engine.policy, max_tokens, needs) for batch in batches]
    figures = Figures()
    skipped: list[Skipped] = []
    for batch in batches:
        broken: NonFiniteError | None = None
        try:
            if needs.group_stats:
                batch = _with_stats(batch, engine.policy, algorithm, reference, max_tokens)
            for micro in batch.micro_batches(max_tokens):
                _backward(engine, micro, algorithm, reference, figures)
        except NonFiniteError as e:
            broken = e
        try:
            if engine.ranks.total(broken is not None):  # the ranks step together or not at all
                raise broken or NonFiniteError("another rank met a number that is not finite")
            figures.put(engine.step())
        except NonFiniteError as e:
            engine.discard()
            skipped.append(Skipped(reason=str(e), samples=e.samples or batch.distinct_samples()))
    return figures.summary(), skipped


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
    figures: Figures,
) -> None:
    """Adds one micro-batch's gradient. Raises NonFiniteError with the samples at fault."""
    needs, mask = algorithm.needs, micro.loss.mask
    scores = engine.logprobs(micro.items(), mask, micro.temperature, needs.entropy)
    now = scores.logprobs.detach()
    rows = _filled(micro, now, needs, reference)
    if needs.entropy:
        rows = replace(rows, entropy=scores.entropy)
    try:
        loss, terms = algorithm.loss(scores.logprobs, rows)
        if not bool(torch.isfinite(loss.detach())):
            raise NonFiniteError(f"the loss is {float(loss)}")
    except NonFiniteError as e:
        at_fault = tuple(dict.fromkeys(micro.samples[b] for b in e.rows))
        raise NonFiniteError(str(e), e.rows, at_fault or micro.distinct_samples()) from None
    engine.backward(loss)
    figures.add("loss", float(loss.detach()))
    figures.put(terms.scalars)
    figures.watch(rows.mask, {"entropy": scores.entropy, **_drift(now, rows), **terms.observed})


def _filled(micro: Batch, now: Tensor, needs: Needs, reference: Policy | None) -> LossBatch:
    """The rows with old and reference log-probs, on the log-probs' device and in their dtype."""
    rows = micro.loss.to(now.device, now.dtype)
    if rows.old_logprobs is None:  # one update a batch of rollouts: the policy still is the old one
        rows = replace(rows, old_logprobs=_old(rows, now, needs))
    if needs.ref_logprobs and rows.ref_logprobs is None:
        assert reference is not None
        ref = guard(_without_gradient(reference, micro), rows.mask, "reference log-probs")
        rows = replace(rows, ref_logprobs=ref)
    return rows


def _old(rows: LossBatch, now: Tensor, needs: Needs) -> Tensor:
    """Log-probs under the policy that sampled: the present one, or for replayed rollouts what is stored with them."""
    if needs.replay_old == "recomputed" or rows.replayed is None or rows.sampled_logprobs is None:
        return now
    return torch.where(rows.replayed[:, None], rows.sampled_logprobs.to(now), now)


def _with_stats(
    batch: Batch, policy: Policy, algorithm: Algorithm, reference: Policy | None, max_tokens: int
) -> Batch:
    """The batch with what its rows must know of their groups, when a group may not fit into one micro-batch."""
    parts = list(batch.parts(max_tokens))
    if len(parts) <= 1:
        return batch
    width = batch.loss.mask.shape
    filled = {k: torch.zeros(width, dtype=torch.float64) for k in ("now", "old", "ref")}
    for rows in parts:
        micro = batch.take(rows)
        now = _without_gradient(policy, micro)
        found = _filled(micro, now, algorithm.needs, reference)
        given = {"now": now, "old": found.old_logprobs, "ref": found.ref_logprobs}
        for key, values in given.items():
            if values is not None:
                filled[key][rows, : values.shape[1]] = values.double().cpu()
    ref = filled["ref"] if algorithm.needs.ref_logprobs else None
    whole = replace(batch.loss, old_logprobs=filled["old"], ref_logprobs=ref)
    coupled = cast(GroupCoupled, algorithm.objective)
    return replace(batch, loss=replace(whole, stats=coupled.group_stats(filled["now"], whole)))


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
            policy, part.items(), mask=part.loss.mask, temperature=part.temperature
        )
    return found.logprobs


def _with_old(batch: Batch, policy: Policy, max_tokens: int, needs: Needs) -> Batch:
    """The batch with the log-probs under the policy before the first of several updates."""
    old = torch.zeros(batch.loss.mask.shape, dtype=torch.float64)
    for rows in batch.parts(max_tokens):
        micro = batch.take(rows)
        found = _without_gradient(policy, micro)
        values = _old(micro.loss.to(found.device, found.dtype), found, needs)
        old[rows, : values.shape[1]] = values.double().cpu()
    return replace(batch, loss=replace(batch.loss, old_logprobs=old))


class Figures:
    """Gathers what a step reports: sums of the losses, means over optimiser steps, statistics over action tokens."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {"loss": 0.0}
        self._values: dict[str, list[float]] = defaultdict(list)
        self._tokens: dict[str, list[Tensor]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value

    def put(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._values[name].append(value)

    def watch(self, mask: Tensor, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            self._tokens[name].append(tensor.detach()[mask].float().cpu())

    def summary(self) -> dict[str, float]:
        out = dict(self._sums)
        out |= {name: sum(v) / len(v) for name, v in self._values.items()}
        for name, parts in self._tokens.items():
            values = torch.cat(parts)
            if not len(values):
                continue
            if name in ("ratio", "sampler_gap"):
                out[f"{name}/min"] = float(values.min())
                out[f"{name}/mean"] = float(values.mean())
                out[f"{name}/max"] = float(values.max())
            else:
                out[name] = float(values.mean())
        return out
