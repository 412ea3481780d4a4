"""Credit by turn: what a step earned, compared with the other steps that began at the same observation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import NonNegativeFloat

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.group import Centre, Scale
from vlrft.advantages.grouped import Floats, centred, over_group_std
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import UnitInterval, strict


@strict
class AddStep:
    """Adds ω · A_b to each turn b: A_b = (R_b − μ) / (σ + 1e-6), μ and the unbiased σ over the turns of the group that
    answer the same observation, R_b = Σ_{k ≥ b} γ^(k−b) r_k the discounted return from turn b to its episode's end.

    Exactly 0 where those returns do not differ, so also where no other turn began there (arXiv 2505.10978, Eq. 5-8).
    """

    weight: NonNegativeFloat = 1.0
    """ω."""
    discount: UnitInterval = 0.95
    """γ; 1: none."""
    scale: bool = True
    """false: no division by σ."""
    discount_penalties: bool = False
    """Of the penalties R_b holds b's own alone; true: those of later turns as well, discounted. A group in which no turn is
    valid then still has returns that differ, by the turns' places alone."""

    def __call__(self, plays: EstimatorInput) -> EstimatorInput:
        found = centred(self._returns(plays), plays.anchors)
        if self.scale:
            found = over_group_std(found, plays.anchors)
        before = 0.0 if plays.by_turn is None else plays.by_turn
        return replace(plays, by_turn=before + self.weight * found)

    def _returns(self, plays: EstimatorInput) -> Floats:
        returns = plays.step_rewards - (plays.penalties if self.discount_penalties else 0.0)
        later = np.zeros(int(plays.episodes.max(initial=-1)) + 1)  # of each, from the turn after
        for b in np.argsort(-plays.places, kind="stable"):
            returns[b] += self.discount * later[plays.episodes[b]]
            later[plays.episodes[b]] = returns[b]
        return returns if self.discount_penalties else returns - plays.penalties


@strict
class EachTurn:
    """From here on every turn stands for itself, so that statistics are taken over turns and a long episode weighs more
    (verl-agent's `compute_mean_std_cross_steps`). Its value is the episode's reward; of the penalties only its own counts.
    """

    def __call__(self, plays: EstimatorInput) -> EstimatorInput:
        own = plays.rollouts
        without = plays.values + np.bincount(own, plays.penalties, minlength=len(plays.values))
        return replace(
            plays,
            values=without[own] - plays.penalties,
            keys={name: labels[own] for name, labels in plays.keys.items()},
            scores={name: scores[own] for name, scores in plays.scores.items()},
            tokens=plays.turn_tokens,
            truncated=plays.truncated[own],
            greedy=None if plays.greedy is None else plays.greedy[own],
            rollouts=np.arange(len(own)),
        )


STEPS = {"add_step": AddStep, "each_turn": EachTurn}

ESTIMATORS = (
    Estimator(
        name="gigpo",
        doc="The episode's standardised reward plus the step's among equal observations (GiGPO, arXiv 2505.10978).",
        equation="A_b = (r_i − μ_g) / (σ_g + 1e-6) + (R_b − μ_s) / (σ_s + 1e-6), R_b = Σ_{k≥b} 0.95^(k−b) r_k",
        steps=(Centre(), Scale(), AddStep()),
    ),
    Estimator(
        name="standardised_turns",
        doc="The episode's reward above the mean over the turns of its group, in their standard deviations.",
        equation="A_b = (s_b − μ_g) / (σ_g + 1e-6), s_b = r_i without the penalties of other turns, μ and σ over turns",
        steps=(EachTurn(), Centre(), Scale()),
    ),
    Estimator(
        name="gigpo_turns",
        doc="GiGPO as its authors' code runs it: the episode's part compared over turns, each with its own penalty alone.",
        equation="A_b = (s_b − μ_g) / (σ_g + 1e-6) + (R_b − μ_s) / (σ_s + 1e-6), s_b and μ_g as standardised_turns",
        steps=(AddStep(), EachTurn(), Centre(), Scale()),
    ),
)
