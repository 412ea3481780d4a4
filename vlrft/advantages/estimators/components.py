"""Steps that read the reward's components apart: weighted anew, or each normalised before they are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

import numpy as np

from vlrft.advantages.grouped import Floats, Ints, centred, over_group_std, over_step_std
from vlrft.advantages.inputs import REST, EstimatorInput
from vlrft.config import strict
from vlrft.plugins.names import unknown_name
from vlrft.schema.errors import AdvantageError


@strict
class Combine:
    """v_i ← Σ_k w_k s_ik over the components that apply to rollout i."""

    weights: dict[str, float] | None = None
    """Component -> weight; the task's own unless given. One that is not named counts nothing; `name` stands for all
    `name/part`."""

    def __call__(self, plays: EstimatorInput) -> EstimatorInput:
        total = np.zeros_like(plays.values)
        for name, weight in _weights(plays, self.weights).items():
            total += weight * np.nan_to_num(plays.scores[name])
        return replace(plays, values=total)


@strict
class PerComponent:
    """v_i ← Σ_k w_k a_ik, a_k = the component's scores, centred and scaled over the groups of its key.

    A rollout to which a component does not apply takes no part in that component's statistics and gets nothing from it;
    a group whose scores do not differ gets exactly 0 from it.
    """

    key: str = "sample"
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Component -> its own key, where it is not `key`."""
    scale: Literal["group", "step", "none"] = "group"
    weights: dict[str, float] | None = None
    """Component -> weight; the task's own unless given."""

    @property
    def min_group(self) -> int:
        return 2 if "sample" in (self.key, *self.keys.values()) else 1

    def __call__(self, plays: EstimatorInput) -> EstimatorInput:
        total = np.zeros_like(plays.values)
        weights = _weights(plays, self.weights)
        _refuse_unknown(self.keys, plays)
        for name, weight in weights.items():
            own = self.keys.get(name, self.keys.get(name.split("/")[0], self.key))
            scores, key = plays.scores[name], plays.key(own)
            applies = np.isfinite(scores)
            total[applies] += weight * self._normalised(scores[applies], key[applies])
        return replace(plays, values=total)

    def _normalised(self, scores: Floats, key: Ints) -> Floats:
        found = centred(scores, key)
        if self.scale == "group":
            return over_group_std(found, key)
        return over_step_std(found) if self.scale == "step" else found


def _weights(plays: EstimatorInput, given: Mapping[str, float] | None) -> dict[str, float]:
    """Component -> weight, zero ones left out. Raises AdvantageError for a component that there is not."""
    if given is not None:
        _refuse_unknown(given, plays)
    weights = plays.weights if given is None else given
    found = {n: weights.get(n, weights.get(n.split("/")[0], 0.0)) for n in plays.scores}
    return {name: weight for name, weight in found.items() if weight}


def _refuse_unknown(names: Mapping[str, object], plays: EstimatorInput) -> None:
    known_names = {REST, *plays.scores, *(n.split("/")[0] for n in plays.scores)}
    for name in names:
        if name not in known_names:
            raise AdvantageError(unknown_name("reward component", name, plays.scores))


STEPS = {"combine": Combine, "per_component": PerComponent}

ESTIMATORS = ()
