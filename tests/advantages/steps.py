"""Optimiser steps for tests: rewards and groups, a turn of one token a rollout unless more is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vlrft.advantages import EstimatorInput


def step_of(rewards: Any, group: Any, **given: Any) -> EstimatorInput:
    """A step of single-turn rollouts; `given` are further fields of Plays."""
    values = np.asarray(rewards, dtype=np.float64)
    n = len(values)
    keys = {"sample": np.asarray(group, dtype=np.int64), **given.pop("keys", {})}
    own = np.asarray(given.pop("rollouts", range(n)), dtype=np.int64)
    turn_tokens = np.asarray(given.pop("turn_tokens", np.ones(len(own))), dtype=np.int64)
    fields: dict[str, Any] = {
        "tokens": np.bincount(own, weights=turn_tokens, minlength=n).astype(np.int64),
        "truncated": np.zeros(n, dtype=np.bool_),
        "step_rewards": np.zeros(len(own)),
        "penalties": np.zeros(len(own)),
        "anchors": np.arange(len(own)),
        "places": np.zeros(len(own), dtype=np.int64),
        "episodes": own,
    }
    given = {"rollouts": own, "turn_tokens": turn_tokens, **given}
    return EstimatorInput(values=values, keys=keys, **(fields | given))


def groups_of(labels: Sequence[int]) -> list[list[int]]:
    """The places of each label, in order of first appearance."""
    return [[i for i, own in enumerate(labels) if own == k] for k in dict.fromkeys(labels)]
