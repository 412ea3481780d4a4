"""Steps over the components of a reward: weighted differently, or each normalised before they are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Literal

import numpy as np

from vlrft.advantages.grouped import (
    Floats,
    Ints,
    centre,
    divide_by_group_std,
    divide_by_step_std,
    least_group,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.advantages.reward_components import REST
from vlrft.config import strict
from vlrft.plugins.names import unknown_name
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import FiniteFloat


@strict
class Combine:
    """v_i ← Σ_k w_k s_ik over the components that apply to rollout i; one whose reward failed (`on_error: none`) counts as
    the mean of the group's others."""

    weights: dict[str, FiniteFloat] | None = None
    """Component -> weight; default: the task's. A component that is not named counts nothing; `name` means every
    `name/part`."""

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that the config names."""
        return frozenset(self.weights or ())

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        total = np.zeros_like(inputs.values)
        for name, weight in component_weights(inputs, self.weights).items():
            total += weight * inputs.counted(name)
        return replace(inputs, values=total)


@strict
class PerComponent:
    """v_i ← Σ_k w_k a_ik, a_k: the component's scores, centred and scaled over the groups of its key.

    A rollout to which a component does not apply is left out of that component's statistics and gets 0 from it, and so
    does every rollout of a group whose scores are equal.
    """

    key: str = "sample"
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Component -> key, for components with another key than `key`."""
    scale: Literal["group", "step", "none"] = "group"
    weights: dict[str, FiniteFloat] | None = None
    """Component -> weight; default: the task's."""

    @property
    def min_group(self) -> int:
        return least_group(self.key, *self.keys.values())

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that the config names."""
        return frozenset(self.weights or ()) | frozenset(self.keys)

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        total = np.zeros_like(inputs.values)
        weights = component_weights(inputs, self.weights)
        refuse_unknown(self.keys, inputs)
        for name, weight in weights.items():
            key_name = self.keys.get(name, self.keys.get(name.split("/")[0], self.key))
            scores, key = inputs.scores[name], inputs.key(key_name)
            applies = np.isfinite(scores)
            total[applies] += weight * self._normalise(scores[applies], key[applies])
        return replace(inputs, values=total)

    def _normalise(self, scores: Floats, key: Ints) -> Floats:
        centred = centre(scores, key)
        if self.scale == "group":
            return divide_by_group_std(centred, key)
        return divide_by_step_std(centred) if self.scale == "step" else centred


def component_weights(
    inputs: EstimatorInput, overrides: Mapping[str, float] | None
) -> dict[str, float]:
    """Component -> weight, without zeros. Raises AdvantageError for an unknown component."""
    if overrides is not None:
        refuse_unknown(overrides, inputs)
    weights = inputs.weights if overrides is None else overrides
    by_name = {n: weights.get(n, weights.get(n.split("/")[0], 0.0)) for n in inputs.scores}
    return {name: weight for name, weight in by_name.items() if weight}


def scores_of(inputs: EstimatorInput, name: str) -> Floats:
    """The scores [R] of one component; zeros for an environment that paid nothing in the step. Raises AdvantageError for an
    unknown one, and for one that has parts only."""
    refuse_unknown([name], inputs)
    if name not in inputs.scores:
        if name == REST:
            return np.zeros_like(inputs.values)
        raise AdvantageError(
            f"the reward component {name!r} has only parts here; known: {', '.join(inputs.scores)}"
        )
    return inputs.scores[name]


def refuse_unknown(names: Iterable[str], inputs: EstimatorInput) -> None:
    """Raises AdvantageError for a name that is no component of the rewards."""
    components = {REST, *inputs.scores, *(n.split("/")[0] for n in inputs.scores)}
    for name in names:
        if name not in components:
            raise AdvantageError(unknown_name("reward component", name, inputs.scores))


STEPS = {"combine": Combine, "per_component": PerComponent}

ESTIMATORS = ()
