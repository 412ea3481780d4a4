"""Estimator inputs for tests: rewards and groups; by default each rollout is one turn of one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vlrft.advantages import EstimatorInput


def step_of(rewards: Any, group: Any, **overrides: Any) -> EstimatorInput:
    """A step of single-turn rollouts; `overrides` are further fields of EstimatorInput."""
    values = np.asarray(rewards, dtype=np.float64)
    n = len(values)
    keys = {"sample": np.asarray(group, dtype=np.int64), **overrides.pop("keys", {})}
    owner = np.asarray(overrides.pop("rollouts", range(n)), dtype=np.int64)
    turn_tokens = np.asarray(overrides.pop("turn_tokens", np.ones(len(owner))), dtype=np.int64)
    fields: dict[str, Any] = {
        "tokens": np.bincount(owner, weights=turn_tokens, minlength=n).astype(np.int64),
        "truncated": np.zeros(n, dtype=np.bool_),
        "step_rewards": np.zeros(len(owner)),
        "penalties": np.zeros(len(owner)),
        "anchors": np.arange(len(owner)),
        "places": np.zeros(len(owner), dtype=np.int64),
        "episodes": owner,
    }
    overrides = {"rollouts": owner, "turn_tokens": turn_tokens, **overrides}
    return EstimatorInput(values=values, keys=keys, **(fields | overrides))


def groups_of(labels: Sequence[int]) -> list[list[int]]:
    """The indices of each label, in order of first appearance."""
    return [[i for i, label in enumerate(labels) if label == k] for k in dict.fromkeys(labels)]
