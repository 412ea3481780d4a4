"""Credit by turn: the return from a turn, compared with other turns that answer the same observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.group import Centre, Scale
from vlrft.advantages.grouped import Floats, Ints, centre, divide_by_group_std
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import NonNegativeFloat, UnitInterval


@strict
class AddStep:
    """Adds ω · A_b to each turn b: A_b = (R_b − μ) / (σ + 1e-6), μ and the unbiased σ over the turns of the group that
    answer the same observation, R_b = Σ_{k ≥ b} γ^(k−b) r_k the discounted return from turn b to its episode's end.

    Exactly 0 where these returns are equal, and so where no other turn answers that observation (arXiv 2505.10978, Eq. 5-8).
    """

    weight: NonNegativeFloat = 1.0
    """ω."""
    discount: UnitInterval = 0.95
    """γ; 1: no discount."""
    scale: bool = True
    """false: no division by σ."""
    discount_penalties: bool = False
    """false: R_b includes the penalty of turn b alone; true: also those of later turns, discounted. The returns of a group
    without any valid turn then differ, by the turns' indices alone."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        credit = centre(self._returns(inputs), inputs.anchors)
        if self.scale:
            credit = divide_by_group_std(credit, inputs.anchors)
        before = 0.0 if inputs.by_turn is None else inputs.by_turn
        return replace(inputs, by_turn=before + self.weight * credit)

    def _returns(self, inputs: EstimatorInput) -> Floats:
        returns = inputs.step_rewards - (inputs.penalties if self.discount_penalties else 0.0)
        later = np.zeros(
            int(inputs.episodes.max(initial=-1)) + 1
        )  # each episode's return from the next turn on
        for b in np.argsort(-inputs.places, kind="stable"):
            returns[b] += self.discount * later[inputs.episodes[b]]
            later[inputs.episodes[b]] = returns[b]
        return returns if self.discount_penalties else returns - inputs.penalties


@strict
class EachTurn:
    """Makes every turn a separate entry: later statistics are taken over turns, so that a long episode weighs more
    (verl-agent's `compute_mean_std_cross_steps`). A turn's value is the episode's reward, less its own penalty only.

    The key `module` then holds turns of a group that answer the same observation: `{step: centre, key: module}` compares
    them alone, each with its episode's reward.
    """

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        owner = inputs.rollouts
        without = inputs.values + np.bincount(owner, inputs.penalties, minlength=len(inputs.values))
        return replace(
            inputs,
            values=without[owner] - inputs.penalties,
            keys={name: labels[owner] for name, labels in inputs.keys.items()}
            | {"module": inputs.anchors},
            scores=_by_owner(inputs.scores, owner),
            imputed=_by_owner(inputs.imputed, owner),
            known=_by_owner(inputs.known, owner),
            history=_by_owner(inputs.history, owner),
            notes=_by_owner(inputs.notes, owner),
            tokens=inputs.turn_tokens,
            truncated=inputs.truncated[owner],
            greedy=None if inputs.greedy is None else inputs.greedy[owner],
            rollouts=np.arange(len(owner)),
        )


def _by_owner(columns: Mapping[str, Floats], owner: Ints) -> dict[str, Floats]:
    """Columns [R] as those of the turns [B]."""
    return {name: values[owner] for name, values in columns.items()}


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
