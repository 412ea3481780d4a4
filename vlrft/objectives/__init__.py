"""Objectives: pure functions from log-probs to loss terms, one loss a module; `objective` has the protocol."""

from vlrft.objectives.loss_batch import (
    Denominators,
    LossBatch,
    make_loss_batch,
    per_group,
    per_rollout,
    row_advantage,
)
from vlrft.objectives.numerics import MAX_LOG_RATIO, guard, log_ratio
from vlrft.objectives.objective import Advising, GroupCoupled, Needs, Objective, Terms
from vlrft.objectives.reduction import Reduction, reduce, token_weights

__all__ = [
    "MAX_LOG_RATIO",
    "Advising",
    "Denominators",
    "GroupCoupled",
    "LossBatch",
    "Needs",
    "Objective",
    "Reduction",
    "Terms",
    "guard",
    "log_ratio",
    "make_loss_batch",
    "per_group",
    "per_rollout",
    "reduce",
    "row_advantage",
    "token_weights",
]
