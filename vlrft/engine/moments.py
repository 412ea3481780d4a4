"""AdamW's state as it was before the first step."""

from __future__ import annotations

import torch


@torch.no_grad()
def zero_moments(optimizer: torch.optim.Optimizer) -> None:
    """Sets moments and counts of steps to 0 where they lie: sharded ones, and those that an engine keeps links to."""
    for state in optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()
