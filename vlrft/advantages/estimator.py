"""An estimator: a named pipeline of steps, and the spreading of its result over tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from vlrft.advantages.grouped import Floats
from vlrft.advantages.inputs import FREE_SIGNALS, EstimatorInput
from vlrft.schema.errors import AdvantageError


@runtime_checkable
class EstimatorStep(Protocol):
    """One operation of a pipeline: a small `@strict` dataclass whose fields are its settings, or any function.

    A step may have `min_group` (the smallest group size that it works for; default 1), `min_tokens` (the smallest limit of
    a completion's tokens that it works for; default 1), `needs_greedy` (whether the loop must sample a greedy rollout of
    each sample), `needs_signals` (the names of the token signals that it reads, see `EstimatorInput.signals`) and
    `remembers` (whether it notes a group's rewards for the prompt's next visit).
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

    @property
    def remembers(self) -> bool:
        """Whether a step notes a group's rewards for the next visit of its prompt."""
        return any(getattr(s, "remembers", False) for s in self.steps)

    @property
    def components(self) -> frozenset[str]:
        """The components of the reward that the steps read by name."""
        return frozenset[str]().union(*(getattr(s, "components", ()) for s in self.steps))

    @property
    def signals(self) -> frozenset[str]:
        """The token signals that the steps read."""
        return frozenset[str]().union(*(getattr(s, "needs_signals", ()) for s in self.steps))

    @property
    def sampled_signals(self) -> tuple[str, ...]:
        """Those that the rollout engine must compute."""
        return tuple(sorted(self.signals - FREE_SIGNALS))

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
    return spread_over_tokens(estimator(inputs), estimator)


def spread_over_tokens(result: EstimatorInput, estimator: Estimator) -> list[Floats]:
    """The advantages of each turn's tokens [B][tokens], from the result of the last step. Raises AdvantageError."""
    by_turn = result.values[result.rollouts]
    if result.by_turn is not None:
        by_turn = by_turn + result.by_turn
    out = [np.full(int(n), value) for value, n in zip(by_turn, result.turn_tokens, strict=True)]
    if result.token_factors is not None:
        pairs = zip(out, result.token_factors, strict=True)
        out = [_multiply(turn, factors, estimator) for turn, factors in pairs]
    if result.by_token is not None:
        out = [turn + terms for turn, terms in zip(out, result.by_token, strict=True)]
    if not all(np.isfinite(a).all() for a in out):
        raise AdvantageError(f"advantage {estimator.name}: advantages are not finite")
    return out


def _multiply(turn: Floats, factors: Floats, estimator: Estimator) -> Floats:
    if turn.shape != factors.shape:
        raise AdvantageError(
            f"advantage {estimator.name}: {len(factors)} token factors for a turn of {len(turn)} tokens"
        )
    return turn * factors
