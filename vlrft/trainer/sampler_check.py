"""Compares the log-probs that the rollout engine reported with the trainer's, before the first update of a stage.

Where they differ, ratios and KL terms are noise and the engine samples from another model than the one that is trained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vlrft.config import RolloutConfig
from vlrft.distributed.ranks import Ranks
from vlrft.policy.agreement import BOUNDS, HALF_MEAN_BOUND, row_bound
from vlrft.policy.logprobs import packed_logprobs, without_dropout
from vlrft.policy.policy import Policy
from vlrft.schema.errors import SelfCheckError
from vlrft.trainer.batch import Batch
from vlrft.trainer.micro_batches import first_micro_batch


@dataclass(frozen=True, kw_only=True)
class SamplerGap:
    """How far sampled log-probs are from the trainer's, in nats, beyond what truncated sampling explains."""

    tokens: int
    total: float  # summed over the tokens
    # Mean over the tokens of the row that exceeds its bound most, or comes nearest to it.
    row: float
    row_tokens: int  # of that row
    sample: str  # of that row


def measure_sampler_gap(
    policy: Policy, batch: Batch, max_tokens: int, rollout: RolloutConfig
) -> SamplerGap | None:
    """The gap over the first micro-batch, on this rank. Replayed rows and tokens without sampled log-probs (gold answers)
    are left out; None where nothing is left.

    Sampling with top_p or top_k renormalises over fewer tokens: each log-prob is larger, with top_p alone by at most
    -log(top_p). Only a difference outside that range counts.
    """
    micro = first_micro_batch(policy, batch, max_tokens)
    sampled, mask, replayed = micro.loss.sampled_logprobs, micro.loss.mask, micro.loss.replayed
    if sampled is None or not micro.ids:
        return None
    compared = mask & ~sampled.isnan()
    if replayed is not None:
        compared &= ~replayed[:, None]
    if not bool(compared.any()):
        return None
    with torch.no_grad(), without_dropout(policy.model):
        scores = packed_logprobs(policy, micro.items(), mask=mask, temperature=micro.temperature)
    excess = sampled.double() - scores.logprobs.double().cpu()
    slack = math.inf if rollout.top_k else -math.log(max(rollout.top_p, 1e-300))
    gap = excess.neg().clamp(min=0) + (excess - slack).clamp(min=0)
    gap = gap.where(compared, 0)
    tokens = compared.sum(1).clamp(min=1)
    means = gap.sum(1) / tokens
    bounds = [row_bound(policy.rounding_dtype, n) for n in tokens.tolist()]
    row = int((means / torch.tensor(bounds, dtype=means.dtype)).argmax())
    return SamplerGap(
        tokens=int(compared.sum()),
        total=float(gap.sum()),
        row=float(means[row]),
        row_tokens=int(tokens[row]),
        sample=micro.samples[row],
    )


def summarise_gaps(
    gap: SamplerGap | None, dtype: torch.dtype, ranks: Ranks
) -> tuple[float, SamplerGap] | None:
    """The mean over all tokens of all ranks, and the gap with the worst row; None where nothing was compared. Every rank
    calls it."""
    gaps: Sequence[SamplerGap] = [
        g for part in ranks.gather([] if gap is None else [gap]) for g in part
    ]
    if not gaps:
        return None
    mean = sum(g.total for g in gaps) / sum(g.tokens for g in gaps)
    return mean, max(gaps, key=lambda g: g.row / row_bound(dtype, g.row_tokens))


def require_small_gap(gap: SamplerGap | None, dtype: torch.dtype, ranks: Ranks) -> None:
    """Raises SelfCheckError on every rank where the ranks' gaps together are larger than rounding in `dtype` explains."""
    summary = summarise_gaps(gap, dtype, ranks)
    if summary is None:
        return
    mean, worst = summary
    bound, of_row = BOUNDS.get(dtype, HALF_MEAN_BOUND), row_bound(dtype, worst.row_tokens)
    if mean <= bound and worst.row <= of_row:
        return
    raise SelfCheckError(
        f"{worst.sample}: the rollout engine's log-probs differ from the trainer's: sampler_gap is {mean:.2g} on average "
        f"(allowed in {dtype}: {bound:g}), {worst.row:.2g} in this sample's row (allowed: {of_row:.2g}); does "
        "rollout.engine have the current weights, LoRA included, and the same precision, temperature and banned tokens? "
        "self_check=false trains with the difference"
    )
