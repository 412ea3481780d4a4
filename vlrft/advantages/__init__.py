"""Advantage estimation: groups of rewards -> an advantage for each action token. NumPy only.

    groups -> estimator_input -> EstimatorInput -> the steps of an Estimator -> estimate_advantages: an array per turn

A step is a pure function `EstimatorInput -> EstimatorInput` (centre, scale, whiten, …) over float64; an estimator is a
named tuple of them. Rollouts are grouped by named keys: `sample` is the group, others may be added. A group is *valid*
when its values differ by more than 1e-6; in every other group a step that compares gives exactly 0, never a rounding
residue divided by a standard deviation. Steps and estimators are in `estimators/`, one file per family.
"""

from vlrft.advantages.estimator import Estimator, EstimatorStep, estimate_advantages
from vlrft.advantages.find import ESTIMATORS, STEPS, Choice, find_estimator
from vlrft.advantages.grouped import MIN_SPREAD, Floats, Ints, valid_groups
from vlrft.advantages.inputs import EstimatorInput, estimator_input

__all__ = [
    "ESTIMATORS",
    "MIN_SPREAD",
    "STEPS",
    "Choice",
    "Estimator",
    "EstimatorInput",
    "EstimatorStep",
    "Floats",
    "Ints",
    "estimate_advantages",
    "estimator_input",
    "find_estimator",
    "valid_groups",
]
