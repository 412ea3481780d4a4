"""ARM: answers in a format that is rare in their group count more, less so as training goes on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.components import scores_of
from vlrft.advantages.grouped import group_sizes
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict


@strict
class RareFormats:
    """v_i ← v_i [1 + ½ (n / F_i − 1) (1 + cos π t)]

    n: rollouts of the group; F_i: those with i's format, the number that the component `score` gives it; t: the share of the
    stage's steps that are done. Ada-GRPO of ARM, Adaptive Reasoning Model; released code, TEAM-ARM/ARM,
    verl/trainer/ppo/core_algos.py, `compute_ada_grpo_outcome_advantage`. Put it before `centre`. At t = 1, and where all have
    one format, nothing changes; at t = 0 the factors of each format add up to n. An answer to which the component does
    not apply is of a format of its own. A group that is all right, in several formats, teaches.
    """

    score: str = "reasoning_format"
    key: str = "sample"

    @property
    def components(self) -> frozenset[str]:
        """Those of the reward that it reads."""
        return frozenset({self.score})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key = inputs.key(self.key)
        formats = np.nan_to_num(scores_of(inputs, self.score), nan=-1.0)
        _, labels = np.unique(
            np.stack([key.astype(np.float64), formats]), axis=1, return_inverse=True
        )
        rarity = group_sizes(key) / np.bincount(labels)[labels]
        decay = 0.5 * (1 + math.cos(math.pi * inputs.progress))
        return replace(inputs, values=inputs.values * (1 + (rarity - 1) * decay))


STEPS = {"rare_formats": RareFormats}

ESTIMATORS: tuple[Estimator, ...] = ()
