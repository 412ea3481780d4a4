"""Groups of rewards -> an advantage for each action token. NumPy only.

    groups -> plays_of -> Plays -> the steps of an Estimator -> advantages: an array a row, a number a token

A step is a pure function `EstimatorInput -> EstimatorInput` (centre, scale, whiten, …) over float64; an estimator is a named tuple of
them. Groups are told apart by named keys: `sample` is the group, others may be added. A group is *valid* when its values
differ by more than 1e-6; every other group gets exactly 0 from a step that compares, never a rounding residue divided by
a standard deviation. Steps and estimators stand in `estimators/`, a file a family.
"""

from vlrft.advantages.estimator import Estimator, Step, advantages
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
    "Floats",
    "Ints",
    "Step",
    "advantages",
    "estimator_input",
    "find_estimator",
    "valid_groups",
]
