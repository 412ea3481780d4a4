"""The update of a step: the log-probs that the algorithm needs, micro-batched backward passes, optimiser steps, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from vlrft.algorithms import Algorithm
from vlrft.distributed.phases import work_on
from vlrft.engine import TrainEngine
from vlrft.engine.forward import token_logprobs
from vlrft.objectives import GroupCoupled, LossBatch, Needs, guard, log_ratio
from vlrft.objectives.kl import kl
from vlrft.policy.logprobs import packed_logprobs, self_check, without_dropout
from vlrft.policy.policy import Policy
from vlrft.schema.errors import NonFiniteError
from vlrft.trainer.batch import Batch
from vlrft.trainer.micro_batches import (
    MicroBatch,
    first_micro_batch,
    micro_batches,
    raising_on_every_rank,
)
from vlrft.trainer.update_metrics import UpdateMetrics


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """An optimiser step that was skipped because a number in it was not finite."""

    reason: str
    samples: tuple[str, ...]


def update(
    engine: TrainEngine,
    batches: Sequence[Batch],
    algorithm: Algorithm,
    max_tokens: int,
    reference: Policy | None = None,
) -> tuple[dict[str, float], list[Skipped]]:
    """Takes one optimiser step per batch; all batches were sampled with the same policy. `max_tokens`: of a micro-batch.

    Returns the metrics, and the optimiser steps that were skipped because their log-probs, loss or gradient were not
    finite; such a step changes no weight.
    """
    needs, ranks = algorithm.needs, engine.ranks
    pairs = [(batch, micro_batches(batch, max_tokens, engine.policy, ranks)) for batch in batches]
    if len(batches) > 1 and needs.old_logprobs:
        pairs = [(_add_old(batch, micros, engine.policy, needs), micros) for batch, micros in pairs]
    metrics = UpdateMetrics()
    skipped: list[Skipped] = []
    for batch, micros in pairs:
        try:
            if needs.group_stats and len(micros) > 1:
                batch = _add_group_stats(batch, micros, engine, algorithm, reference)
            for k, micro in enumerate(micros):
                last = k == len(micros) - 1
                _backward(engine, micro.of(batch), algorithm, reference, metrics, last)
            metrics.add_values(engine.step())
        except NonFiniteError as e:
            engine.discard()
            samples = e.samples or [s for p in ranks.gather(batch.distinct_samples()) for s in p]
            skipped.append(Skipped(reason=str(e), samples=tuple(samples)))
    return metrics.summary(ranks), skipped


def check_packing(policy: Policy, batch: Batch, max_tokens: int) -> None:
    """Compares the packed forward pass of the first micro-batch with the unpacked one; raises SelfCheckError, naming the
    sample, where they differ."""
    micro = first_micro_batch(policy, batch, max_tokens)
    if micro.ids:
        mask, temperature = micro.loss.mask, micro.temperature
        self_check(policy, micro.items(), mask=mask, temperature=temperature, names=micro.samples)


def _backward(
    engine: TrainEngine,
    micro: Batch,
    algorithm: Algorithm,
    reference: Policy | None,
    metrics: UpdateMetrics,
    last: bool,
) -> None:
    """Adds the gradient of one micro-batch, the `last` of its step. Raises NonFiniteError with the samples at fault, on every rank."""
    needs, mask = algorithm.needs, micro.loss.mask
    work_on(micro.samples)
    scores = token_logprobs(
        engine, micro.items(), mask, micro.temperature, needs.entropy, micro.fillers
    )
    now = scores.logprobs.detach()
    ref = _reference_logprobs(micro, needs, reference)
    with raising_on_every_rank(engine.ranks, micro):
        rows = _fill_logprobs(micro, now, needs, ref)
        if needs.entropy:
            rows = replace(rows, entropy=scores.entropy)
        loss, terms = algorithm.loss(scores.logprobs, rows)
        _require_finite(loss)
    engine.backward(loss, last=last)
    if not micro.ids:
        return
    metrics.add_to_sum("loss", float(loss.detach()))
    metrics.add_values(terms.scalars)
    metrics.add_tokens(
        rows.mask, {"entropy": scores.entropy, **_drift(now, rows), **terms.observed}
    )


def _require_finite(loss: Tensor) -> None:
    if not bool(torch.isfinite(loss.detach())):
        raise NonFiniteError(f"the loss is {float(loss)}")


def _reference_logprobs(micro: Batch, needs: Needs, reference: Policy | None) -> Tensor | None:
    """The rows' log-probs under the reference, where they are needed and not in the batch."""
    if not needs.ref_logprobs or micro.loss.ref_logprobs is not None:
        return None
    assert reference is not None
    return _logprobs_without_gradient(reference, micro)


def _fill_logprobs(micro: Batch, now: Tensor, needs: Needs, ref: Tensor | None) -> LossBatch:
    """The rows with old and reference log-probs, on the device and in the dtype of the current ones."""
    rows = micro.loss.to(now.device, now.dtype)
    if rows.old_logprobs is None:  # one update per batch: the weights are those of sampling
        rows = replace(rows, old_logprobs=_old_logprobs(rows, now, needs))
    if ref is not None:
        rows = replace(rows, ref_logprobs=guard(ref, rows.mask, "reference log-probs"))
    return rows


def _old_logprobs(rows: LossBatch, now: Tensor, needs: Needs) -> Tensor:
    """Old log-probs [B T]: the current ones; for replayed rollouts, those stored with them unless recomputed."""
    if needs.replay_old == "recomputed" or rows.replayed is None or rows.sampled_logprobs is None:
        return now
    return torch.where(rows.replayed[:, None], rows.sampled_logprobs.to(now), now)


def _add_group_stats(
    batch: Batch,
    micros: Sequence[MicroBatch],
    engine: TrainEngine,
    algorithm: Algorithm,
    reference: Policy | None,
) -> Batch:
    """The batch with statistics of whole groups, which a pass without gradients computes because a group may be split over
    micro-batches."""
    needs = algorithm.needs
    shape = batch.loss.mask.shape
    filled = {k: torch.zeros(shape, dtype=torch.float64) for k in ("now", "old", "ref")}
    device = engine.policy.device
    # The backward passes, which follow in the same order, draw the dropout of this pass again.
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for part in micros:
            micro = part.of(batch)
            work_on(micro.samples)
            now = _logprobs_without_gradient(engine.policy, micro)
            ref = _reference_logprobs(micro, needs, reference)
            with raising_on_every_rank(engine.ranks, micro):
                rows = _fill_logprobs(micro, now, needs, ref)
            logprobs = {"now": now, "old": rows.old_logprobs, "ref": rows.ref_logprobs}
            for key, values in logprobs.items():
                if values is not None:
                    filled[key][part.rows, : values.shape[1]] = values.double().cpu()
    ref = filled["ref"] if needs.ref_logprobs else None
    whole = replace(batch.loss, old_logprobs=filled["old"], ref_logprobs=ref)
    coupled = cast(GroupCoupled, algorithm.objective)
    with raising_on_every_rank(engine.ranks, batch):
        stats = coupled.group_stats(filled["now"], whole)
    return replace(batch, loss=replace(whole, stats=stats))


def _drift(now: Tensor, rows: LossBatch) -> dict[str, Tensor]:
    """How far the policy has moved from the old one, and how far the trainer's log-probs are from the sampler's."""
    assert rows.old_logprobs is not None
    drift = {
        "ratio": log_ratio(now, rows.old_logprobs).exp(),
        "kl/old": kl(now, rows.old_logprobs, "k3"),
    }
    if rows.sampled_logprobs is not None:
        gap = log_ratio(now, rows.sampled_logprobs).abs()
        drift["sampler_gap"] = gap.nan_to_num(nan=0.0)  # NaN: tokens that were not sampled
    return drift


def _logprobs_without_gradient(policy: Policy, micro: Batch) -> Tensor:
    with torch.no_grad():
        scores = packed_logprobs(
            policy,
            micro.items(),
            mask=micro.loss.mask,
            temperature=micro.temperature,
            fillers=micro.fillers,
        )
    return scores.logprobs


def _add_old(batch: Batch, micros: Sequence[MicroBatch], policy: Policy, needs: Needs) -> Batch:
    """The batch with log-probs under the policy before the first of several updates, without dropout, as it sampled."""
    old = torch.zeros(batch.loss.mask.shape, dtype=torch.float64)
    for part in micros:
        micro = part.of(batch)
        work_on(micro.samples)
        with without_dropout(policy.model):
            now = _logprobs_without_gradient(policy, micro)
        values = _old_logprobs(micro.loss.to(now.device, now.dtype), now, needs)
        old[part.rows, : values.shape[1]] = values.double().cpu()
    return replace(batch, loss=replace(batch.loss, old_logprobs=old))
