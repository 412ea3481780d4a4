"""Steps over components of a reward that depend on each other: one gates another, an ensemble's least or its mean less its variance."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import component_weights, refuse_unknown, scores_of
from vlrft.advantages.grouped import MIN_SPREAD, Floats
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat, NonNegativeFloat

Names = Annotated[tuple[str, ...], Field(min_length=1)]


@strict
class Gate:
    """v_i ← Σ_k w_k s_ik, where the components `of` count only if those of `by` that apply to the rollout are at least `at`.

    Posterior-GRPO: R = R_format + R_outcome + R_outcome · R_thinking is `{of: thinking, by: outcome}`. Vision-R1's PTST, whose
    reward is 1 for an answer that is right and well formed: `{of: accuracy, by: format, weights: {accuracy: 1}}`. Several names
    are for a task whose kinds of questions have rewards of their own: `of: [choice, count]`. A rollout to which none of `by`
    applies does not pass. `by` may have the weight 0, and is then not paid itself.
    """

    of: str | Names
    by: str | Names
    at: FiniteFloat = 1.0
    weights: dict[str, FiniteFloat] | None = None
    """Component -> weight; default: the task's."""

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that the config names."""
        return frozenset({*_listed(self.of), *_listed(self.by), *(self.weights or ())})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        of = frozenset(_listed(self.of))
        refuse_unknown(of, inputs)
        by: Floats = np.stack([scores_of(inputs, name) for name in _listed(self.by)])
        applies = np.isfinite(by)
        passed = applies.any(axis=0) & (~applies | (by >= self.at - MIN_SPREAD)).all(axis=0)
        total = np.zeros_like(inputs.values)
        for name, weight in component_weights(inputs, self.weights).items():
            scores = inputs.counted(name)
            gated = bool({name, name.split("/")[0]} & of)
            total += weight * (np.where(passed, scores, 0.0) if gated else scores)
        return replace(inputs, values=total)


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@strict
class WorstOf:
    """v_i ← min_k s_ik over the components `names` that apply: the worst case of an ensemble of rewards.

    Worst-case optimisation of "Reward Model Ensembles Help Mitigate Overoptimization" (Coste et al.). Their weights in the
    task do not count; other components are left out.
    """

    names: Names

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset(self.names)

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=np.nanmin(_members(inputs, self.names, "worst_of"), axis=0))


@strict
class MeanMinusVariance:
    """v_i ← mean_k s_ik − λ Var_k s_ik over the components `names` that apply, the variance that of the population.

    Uncertainty-weighted optimisation of the same paper; released configuration, tlc4418/llm_optimization: λ = 0.1 in RL.
    """

    names: Names
    weight: NonNegativeFloat = 0.1
    """λ."""

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset(self.names)

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        members = _members(inputs, self.names, "mean_minus_variance")
        mean, variance = np.nanmean(members, axis=0), np.nanvar(members, axis=0)
        return replace(inputs, values=mean - self.weight * variance)


def _members(inputs: EstimatorInput, names: tuple[str, ...], step: str) -> Floats:
    """Scores [K R]. Raises AdvantageError for a rollout to which none applies."""
    members: Floats = np.stack([scores_of(inputs, name) for name in names])
    without = np.flatnonzero(np.isnan(members).all(axis=0))
    if len(without):
        raise AdvantageError(
            f"{step}: none of {', '.join(names)} applies to rollout {int(without[0])} of the step"
        )
    return members


STEPS = {"gate": Gate, "worst_of": WorstOf, "mean_minus_variance": MeanMinusVariance}

ESTIMATORS: tuple[Estimator, ...] = ()
