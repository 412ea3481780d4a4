"""The metrics of a clipped ratio: where a bound removed the gradient."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor


@torch.no_grad()
def clip_shares(
    moved: Float[Tensor, "B #T"],  # noqa: F821 (an axis of 1 or T)
    advantages: Float[Tensor, "B T"],
    low: float | Float[Tensor, "B T"],
    high: float | Float[Tensor, "B T"],
) -> Mapping[str, Float[Tensor, "B T"]]:
    """1 at tokens whose gradient the clip removes: `moved` is above `high` with A > 0, or below `low` with A < 0.

    `moved` is a ratio or its logarithm, of a token or of its whole row.
    """
    return {
        "ratio/clipped_high": ((moved > high) & (advantages > 0)).to(moved.dtype),
        "ratio/clipped_low": ((moved < low) & (advantages < 0)).to(moved.dtype),
    }
