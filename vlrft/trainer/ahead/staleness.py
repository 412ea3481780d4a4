"""Staleness: how many steps old the weights are that sampled a token, when the step that trains on it begins."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.schema import Group


def staleness_metrics(step: int, groups: Sequence[Group]) -> dict[str, float]:
    """Mean and largest staleness over the action tokens of the groups that were sampled for `step`; 0: of the weights after
    the step before it. Empty without tokens."""
    ages = [
        step - 1 - version
        for group in groups
        for rollout in group.rollouts
        for version in rollout.policy_steps
    ]
    if not ages:
        return {}
    return {"staleness/mean": sum(ages) / len(ages), "staleness/max": float(max(ages))}
