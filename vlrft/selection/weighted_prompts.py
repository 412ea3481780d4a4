"""Prompt strategies that draw every prompt by weight: SPO's by its tracked value, CurES' by its share of right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from vlrft.config import strict
from vlrft.schema.ranges import NonNegativeFloat, PositiveFloat
from vlrft.selection.prompt_state import PromptRecord


@strict
class Tracked:
    """Weights √(v (1 − v)) + 0.05, v = α / (α + β) as the advantage step `minus_tracked` has noted it; ½ before a first visit.

    SPO, arXiv 2509.13232; released code, verl-project/verl-recipe, spo_ray_trainer.py. There the prompts of a loader's batch
    are drawn from; here all of them.
    """

    remembers: ClassVar[bool] = True
    noted_by: ClassVar[str] = "minus_tracked"
    """The advantage step whose notes it reads."""

    explore: NonNegativeFloat = 0.05

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return 1.0

    def weight(self, record: PromptRecord) -> float:
        alpha, beta = record.notes.get("alpha", 0.5), record.notes.get("beta", 0.5)
        value = min(max(alpha / (alpha + beta), 0.0), 1.0)
        return math.sqrt(value * (1 - value)) + self.explore

    def adapt(self, records: Sequence[PromptRecord]) -> Tracked:
        return self


@strict
class Cures:
    """Weights e^(√(p (1 − p)) / τ), p = (s + 1) / (n + 2), τ = (s + 1) / `sharpness`; s: the sum of the prompt's rewards so far,
    its right answers, n: its rollouts.

    CurES; released code, ZexuSun/CurES, epic/epic_sampler.py, where the 0.01 makes the weights nearly equal. Its counts
    of rollouts by the spread of gradients are not here.
    """

    remembers: ClassVar[bool] = True

    sharpness: PositiveFloat = 0.01

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return False

    def weighted_share(self) -> float:
        return 1.0

    def weight(self, record: PromptRecord) -> float:
        right = min(max(record.total, 0.0), record.seen)
        p = (right + 1) / (record.seen + 2)
        return math.exp(math.sqrt(p * (1 - p)) * self.sharpness / (right + 1))

    def adapt(self, records: Sequence[PromptRecord]) -> Cures:
        return self
