"""A named pipeline of steps, and how its result reaches the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from vlrft.advantages.grouped import Floats
from vlrft.advantages.inputs import EstimatorInput
from vlrft.schema.errors import AdvantageError


@runtime_checkable
class Step(Protocol):
    """One operation on the plays: a small `@strict` dataclass whose fields are its settings, or any function.

    A step may also say `min_group` (the smallest configured group it makes sense for, 1 unless said) and `needs_greedy`
    (that the loop must play a greedy rollout of each sample).
    """

    def __call__(self, plays: EstimatorInput) -> EstimatorInput: ...


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """A named pipeline: rewards go in at the first step, advantages come out of the last."""

    name: str
    doc: str
    equation: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def min_group(self) -> int:
        """The smallest configured group it makes sense for."""
        return max((int(getattr(s, "min_group", 1)) for s in self.steps), default=1)

    @property
    def greedy(self) -> bool:
        """Whether the loop must play a greedy rollout of each sample."""
        return any(getattr(s, "needs_greedy", False) for s in self.steps)

    def __call__(self, plays: EstimatorInput) -> EstimatorInput:
        """The plays with advantages in place of rewards. Raises AdvantageError naming the estimator."""
        try:
            for step in self.steps:
                plays = step(plays)
        except AdvantageError as e:
            raise AdvantageError(f"advantage {self.name}: {e}") from None
        return plays


def advantages(plays: EstimatorInput, estimator: Estimator) -> list[Floats]:
    """An array a turn [B], a number for each of its tokens. Raises AdvantageError naming the estimator."""
    found = estimator(plays)
    by_turn = found.values[found.rollouts]
    if found.by_turn is not None:
        by_turn = by_turn + found.by_turn
    out = [np.full(int(n), value) for value, n in zip(by_turn, found.turn_tokens, strict=True)]
    if found.shape is not None:
        out = [_shaped(a, f, estimator) for a, f in zip(out, found.shape, strict=True)]
    if not all(np.isfinite(a).all() for a in out):
        raise AdvantageError(f"advantage {estimator.name}: gave numbers that are not finite")
    return out


def _shaped(turn: Floats, factors: Floats, estimator: Estimator) -> Floats:
    if turn.shape != factors.shape:
        raise AdvantageError(
            f"advantage {estimator.name}: {len(factors)} token factors for a turn of {len(turn)} tokens"
        )
    return turn * factors
