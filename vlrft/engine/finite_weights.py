"""The check that every train engine makes after an optimiser step: the weights are still finite."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.policy.finite import nonfinite_names
from vlrft.schema.errors import DivergedError


def require_finite_weights(named: Iterable[tuple[str, Tensor]], ranks: Ranks = ALONE) -> None:
    """Raises DivergedError, on every rank, where a weight is NaN or infinite after an optimiser step.

    `named`: the weights, or this rank's shards of them; then all ranks call it. It reads each number once, where AdamW
    reads and writes each about seven times.
    """
    broken = nonfinite_names(named)
    first, *_ = [*(name for part in ranks.gather(broken[:1]) for name in part), ""]
    if first:
        raise DivergedError(
            f"weights are NaN or infinite after the optimiser step, such as {first}"
        )
