"""The components of a step's rewards: the scores with a weight, and the rest that they do not explain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vlrft.advantages.grouped import Floats
from vlrft.schema import RewardError, Rollout

REST = (
    "environment"  # the component for the part of a reward that its weighted scores do not explain
)
ROUNDING = 1e-9  # a rest below this is the rounding of a weighted sum


@dataclass(frozen=True, kw_only=True)
class RewardComponents:
    """The components of R rollouts, by name."""

    scores: dict[str, Floats]  # [R] each, NaN where a component does not apply
    imputed: dict[str, Floats]  # [R] each, what the reward counts where a score failed, 0 elsewhere
    weights: dict[str, float]


def components_of(rollouts: Sequence[Rollout], weights: Mapping[str, float]) -> RewardComponents:
    """The components of the rollouts' rewards. `weights`: reward name -> weight; a score `name/part` has the weight of `name`.
    The rest of a reward, such as an environment's own, is a component, too. Raises RewardError, naming the sample, for a
    score that has a weight and is not finite."""
    scores: dict[str, Floats] = {}
    imputed: dict[str, Floats] = {}
    used: dict[str, float] = {}
    for name in dict.fromkeys(name for r in rollouts for name in (*r.scores, *r.imputed)):
        column = [math.nan if (v := r.scores.get(name)) is None else float(v) for r in rollouts]
        scores[name] = np.array([v if math.isfinite(v) else math.nan for v in column])
        if any(name in r.imputed for r in rollouts):
            imputed[name] = np.array([r.imputed.get(name, 0.0) for r in rollouts])
        if (weight := weights.get(name.split("/")[0])) is not None:
            used[name] = weight
            for r, v in zip(rollouts, column, strict=True):
                if r.scores.get(name) is not None and not math.isfinite(v):
                    raise RewardError(f"{r.sample.id}: the reward {name} is not finite: {v}")
    counted = (w * (np.nan_to_num(scores[n]) + imputed.get(n, 0.0)) for n, w in used.items())
    rest = np.array([r.reward for r in rollouts], dtype=np.float64) - sum(counted, 0.0)
    if REST not in scores and bool((np.abs(rest) > ROUNDING).any()):
        scores[REST], used[REST] = rest, 1.0
    return RewardComponents(scores=scores, imputed=imputed, weights=used)
