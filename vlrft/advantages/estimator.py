"""An estimator: a named pipeline of steps, and the spreading of its result over tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from vlrft.advantages.grouped import Floats
from vlrft.advantages.inputs import EstimatorInput
from vlrft.schema.errors import AdvantageError


@runtime_checkable
class EstimatorStep(Protocol):
    """One operation of a pipeline: a small `@strict` dataclass whose fields are its settings, or any function.

    A step may have `min_group` (the smallest group size that it works for; default 1), `min_tokens` (the smallest limit of
    a completion's tokens that it works for; default 1) and `needs_greedy` (whether the loop must sample a greedy rollout of
    each sample).
    """

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput: ...


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """A named pipeline that turns rewards into advantages."""

    name: str
    doc: str
    equation: str = ""
    steps: tuple[EstimatorStep, ...] = ()

    @property
    def min_group(self) -> int:
        """The smallest group size that every step works for."""
        return max((int(getattr(s, "min_group", 1)) for s in self.steps), default=1)

    @property
    def min_tokens(self) -> int:
        """The smallest limit of a completion's tokens that every step works for."""
        return max((int(getattr(s, "min_tokens", 1)) for s in self.steps), default=1)

    @property
    def greedy(self) -> bool:
        """Whether the loop must sample a greedy rollout of each sample."""
        return any(getattr(s, "needs_greedy", False) for s in self.steps)

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        """The input with advantages in place of rewards. Raises AdvantageError, naming the estimator."""
        try:
            for step in self.steps:
                inputs = step(inputs)
        except AdvantageError as e:
            raise AdvantageError(f"advantage {self.name}: {e}") from None
        return inputs


def estimate_advantages(inputs: EstimatorInput, estimator: Estimator) -> list[Floats]:
    """An array for each turn [B], with a number for each of its tokens. Raises AdvantageError, naming the estimator."""
    result = estimator(inputs)
    by_turn = result.values[result.rollouts]
    if result.by_turn is not None:
        by_turn = by_turn + result.by_turn
    out = [np.full(int(n), value) for value, n in zip(by_turn, result.turn_tokens, strict=True)]
    if result.token_factors is not None:
        pairs = zip(out, result.token_factors, strict=True)
        out = [_multiply(turn, factors, estimator) for turn, factors in pairs]
    if not all(np.isfinite(a).all() for a in out):
        raise AdvantageError(f"advantage {estimator.name}: advantages are not finite")
    return out


def _multiply(turn: Floats, factors: Floats, estimator: Estimator) -> Floats:
    if turn.shape != factors.shape:
        raise AdvantageError(
            f"advantage {estimator.name}: {len(factors)} token factors for a turn of {len(turn)} tokens"
        )
    return turn * factors
