"""MT-GRPO: the first turn of an episode also gets the advantage of its own reward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import component_weights, refuse_unknown
from vlrft.advantages.grouped import Floats, centre, divide_by_group_std, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat


@strict
class FirstTurns:
    """v_i ← Â_outcome, plus c · Â_turn for the first turn; v_i ← Â of both rewards' sum in an episode of one turn.

    Â: standardised in the group, (r − μ_g) / (σ_g + 1e-6). The turn's reward is the weighted sum of the components `turn`, of
    which one without a weight, such as a score of the environment, weighs 1; the outcome's is that of all others. MT-GRPO;
    released code, SiliangZeng/Multi-Turn-RL-Agent, verifiers/trainers/mt_grpo_env_trainer.py, c = 1.

    Departures: the code splits at the first message with a tool's result, here it is the first turn, where the
    environment has answered it; the code's σ has 1e-4 added.
    """

    turn: tuple[str, ...]
    coefficient: FiniteFloat = 1.0
    """c."""
    key: str = "sample"

    min_group = min_group_of_key

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset(self.turn)

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        refuse_unknown(self.turn, inputs)
        of_turn, outcome = np.zeros_like(inputs.values), np.zeros_like(inputs.values)
        weights = component_weights(inputs, None)
        for name in inputs.scores:
            counted = inputs.counted(name)
            if {name, name.split("/")[0]} & set(self.turn):
                of_turn += weights.get(name, 1.0) * counted
            else:
                outcome += weights.get(name, 0.0) * counted
        several = np.bincount(inputs.rollouts, minlength=len(inputs.values)) > 1
        both = self._standardise(of_turn + outcome, inputs)
        values = np.where(several, self._standardise(outcome, inputs), both)
        first = (inputs.places == 0) & several[inputs.rollouts]
        credit = self.coefficient * self._standardise(of_turn, inputs)[inputs.rollouts]
        before = 0.0 if inputs.by_turn is None else inputs.by_turn
        return replace(inputs, values=values, by_turn=before + np.where(first, credit, 0.0))

    def _standardise(self, rewards: Floats, inputs: EstimatorInput) -> Floats:
        key = inputs.key(self.key)
        return divide_by_group_std(centre(rewards, key), key)


STEPS = {"first_turns": FirstTurns}

ESTIMATORS: tuple[Estimator, ...] = ()
