"""The sizes and times of a pipeline, and the work of its steps."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServerTimes:
    """Seconds that a server needs. A decoding step with n rows takes `token` + (n - 1) · `row` seconds, and gives one
    token a row."""

    token: float
    row: float = 0.0
    prefill: float = 0.0
    """Of one token of a prompt; no row is decoded meanwhile. A prompt is prefilled once on a server while its cache lasts."""
    rows: int = 256
    """Requests at once; others wait."""

    def step(self, rows: int) -> float:
        """Seconds of one decoding step."""
        return self.token + (rows - 1) * self.row


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A trainer and the servers that sample for it."""

    server: ServerTimes
    servers: int = 1
    ahead: int = 0
    """K: rollouts of step t begin when the weights after step t - 1 - K are out."""
    train: float = 0.0
    """Seconds of an update, whatever its tokens."""
    train_token: float = 0.0
    """Further seconds of an update for each sampled token."""
    push: float = 0.0
    """Seconds in which new weights are loaded: the servers are paused, and so is the trainer."""
    env_workers: int | None = None
    lock_step: bool = False
    """The episodes of a step take each turn together."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One completion, and the environment's time after it."""

    tokens: int
    prompt: int = 0  # tokens to prefill
    environment: float = 0.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Episode:
    """The turns of one rollout. Episodes of equal `sample` have the same first prompt."""

    sample: int
    turns: tuple[Turn, ...]


StepWork = tuple[Episode, ...]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Random steps. Lengths of completions and seconds of environments are log-normal around their means."""

    samples: int
    group: int
    tokens: float
    """Mean tokens of a completion."""
    spread: float = 0.0
    """Standard deviation of the logarithm: 0 gives every completion the mean; at 1 one in a hundred has six times it."""
    max_tokens: int = 1 << 20
    prompt: int = 0
    turns: int = 1
    environment: float = 0.0
    """Mean seconds of an environment's turn."""
    environment_spread: float = 0.0

    def step(self, seed: int, step: int) -> StepWork:
        """The episodes of a step; equal for equal arguments."""
        source = random.Random(f"{seed} {step}")
        return tuple(
            Episode(
                sample=step * self.samples + sample,
                turns=tuple(self._turn(source) for _ in range(self.turns)),
            )
            for sample in range(self.samples)
            for _ in range(self.group)
        )

    def _turn(self, source: random.Random) -> Turn:
        tokens = round(_log_normal(source, self.tokens, self.spread))
        return Turn(
            tokens=min(max(tokens, 1), self.max_tokens),
            prompt=self.prompt,
            environment=_log_normal(source, self.environment, self.environment_spread),
        )


def _log_normal(source: random.Random, mean: float, spread: float) -> float:
    """A positive number with this mean."""
    drawn = math.exp(source.gauss(0.0, 1.0) * spread - spread * spread / 2)
    return mean * drawn
