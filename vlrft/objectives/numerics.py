"""Log-probs and their ratios, kept finite: garbage at masked tokens is zeroed, a log-ratio is clamped before `exp`."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vlrft.schema.errors import NonFiniteError

MAX_LOG_RATIO = 20.0  # exp(20) = 5e8 still squares within float32


def guard(
    values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], name: str
) -> Float[Tensor, "B T"]:
    """`values` in float32 or wider, 0 where the mask is off, so that garbage there has no gradient.

    Raises NonFiniteError naming the rows whose action tokens are NaN or infinite; its message begins with `name`.
    """
    wide = values if values.dtype == torch.float64 else values.float()
    clean = wide.masked_fill(~mask, 0.0)
    finite = torch.isfinite(clean.detach()).all(1)
    if not bool(finite.all()):
        rows = tuple(int(i) for i in (~finite).nonzero()[:, 0])
        raise NonFiniteError(f"{name}: not finite at action tokens of rows {list(rows[:8])}", rows)
    return clean


def log_ratio(logprobs: Float[Tensor, "B T"], other: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """log(π / π_other), clamped so that its exponential and the square of that stay finite."""
    return (logprobs - other).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
