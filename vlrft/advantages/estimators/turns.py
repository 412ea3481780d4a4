"""Credit by turn: what a step earned, compared with the other steps that began at the same observation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import NonNegativeFloat

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.group import Centre, Scale
from vlrft.advantages.keyed import Floats, centred, over_group_std
from vlrft.advantages.plays import Plays
from vlrft.config import Share, strict


@strict
class AddStep:
    """Adds ω · A_b to each row b: A_b = (R_b − μ) / (σ + 1e-6), μ and the unbiased σ over the rows of the group that
    begin at the same observation, R_b = Σ_{k ≥ b} γ^(k−b) r_k the discounted return from row b to its rollout's end.

    Exactly 0 where those returns do not differ, so also where no other row began there (arXiv 2505.10978, Eq. 5-8).
    """

    weight: NonNegativeFloat = 1.0
    """ω."""
    discount: Share = 0.95
    """γ; 1: none."""
    scale: bool = True
    """false: no division by σ."""

    def __call__(self, plays: Plays) -> Plays:
        found = centred(self._returns(plays), plays.anchors)
        if self.scale:
            found = over_group_std(found, plays.anchors)
        before = 0.0 if plays.by_row is None else plays.by_row
        return replace(plays, by_row=before + self.weight * found)

    def _returns(self, plays: Plays) -> Floats:
        returns = plays.step_rewards.astype(np.float64)  # a copy
        later = np.zeros(len(plays.values))  # of each rollout, from the row after
        for b in np.argsort(-plays.turns, kind="stable"):
            returns[b] += self.discount * later[plays.rows[b]]
            later[plays.rows[b]] = returns[b]
        return returns


STEPS = {"add_step": AddStep}

ESTIMATORS = (
    Estimator(
        name="gigpo",
        doc="The episode's standardised reward plus the step's among equal observations (GiGPO, arXiv 2505.10978).",
        equation="A_b = (r_i − μ_g) / (σ_g + 1e-6) + (R_b − μ_s) / (σ_s + 1e-6), R_b = Σ_{k≥b} 0.95^(k−b) r_k",
        steps=(Centre(), Scale(), AddStep()),
    ),
)
