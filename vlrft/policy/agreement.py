"""How far two computations of the same log-probs may be apart: bounds by dtype, and the check of the packed forward pass.

In float32 and float64 every token has to agree. In half precision (bfloat16: 8 bits, float16: 11 bits) another order of
summation changes most log-probs by some hundredths, and that of a token that the policy hardly ever samples by more: in
good runs of SmolLM2-135M by up to 0.85, with a mean of 0.02. There only means are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vlrft.schema.errors import SelfCheckError

BOUNDS = {torch.float64: 1e-8, torch.float32: 1e-4}  # of each token
HALF_ROW_BOUND = 0.25  # of the mean over a row's tokens
# Of the mean over all tokens. Measured in bfloat16: 0.004 to 0.02 where both compute attention scores in float32; 0.03 and
# more, growing with the scores, where one rounds them to bfloat16.
HALF_MEAN_BOUND = 0.05
# Over a row's tokens: of a row of one token the mean is one token's difference.
HALF_ROW_TOTAL = 1.5


def row_bound(dtype: torch.dtype, tokens: int) -> float:
    """The largest mean difference that rounding explains in a row of so many tokens."""
    half = max(HALF_ROW_BOUND, HALF_ROW_TOTAL / max(tokens, 1))
    return BOUNDS.get(dtype, half)


@dataclass(frozen=True, kw_only=True)
class RowGap:
    """Differences of the log-probs of one row, in nats."""

    name: str
    tokens: int
    largest: float
    total: float

    @staticmethod
    def of(gap: Float[Tensor, " T"], mask: Bool[Tensor, " T"], name: str) -> RowGap:
        """`gap`: absolute differences, 0 where `mask` is false."""
        total = float(gap.double().sum())
        return RowGap(name=name, tokens=int(mask.sum()), largest=float(gap.max()), total=total)

    @property
    def mean(self) -> float:
        return self.total / max(self.tokens, 1)


def require_agreement(gaps: Sequence[RowGap], dtype: torch.dtype) -> None:
    """Raises SelfCheckError, with the row's name, where the packed forward pass differs from the unpacked one by more than
    rounding in `dtype` explains."""
    if not gaps:
        return
    if dtype in BOUNDS:
        worst, bound = max(gaps, key=lambda gap: gap.largest), BOUNDS[dtype]
        if worst.largest > bound:
            raise _disagreement(worst, f"{worst.largest:.2g}, more than {bound:g} ({dtype})")
        return
    worst = max(gaps, key=lambda gap: gap.mean / row_bound(dtype, gap.tokens))
    mean = sum(gap.total for gap in gaps) / max(sum(gap.tokens for gap in gaps), 1)
    bound = row_bound(dtype, worst.tokens)
    if mean > HALF_MEAN_BOUND or worst.mean > bound:
        raise _disagreement(
            worst,
            f"{mean:.2g} on average (allowed in {dtype}: {HALF_MEAN_BOUND:g}), {worst.mean:.2g} in this row (allowed: "
            f"{bound:.2g})",
        )


def _disagreement(worst: RowGap, difference: str) -> SelfCheckError:
    return SelfCheckError(
        f"{worst.name}: packed and replicated log-probs differ by {difference}; this architecture or attention does not "
        "suit the packed forward: try policy.attention=eager, or in half precision policy.dtype=float32; self_check=false "
        "trains with the difference"
    )
