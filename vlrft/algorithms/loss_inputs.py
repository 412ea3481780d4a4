"""Checks of the arguments of `policy_loss`: none is ignored, and the rows of a rollout agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vlrft.advantages import Floats, Ints
from vlrft.plugins.names import unknown_name

EXTRAS = (
    *("anchors", "entropy", "greedy_rewards", "history", "keys", "known", "length", "penalties"),
    *("progress", "replayed", "scores", "signals", "step_rewards", "weights"),
)
_ROWS = "pass only the rows that are to be trained on"
_IDLE = {  # parts of an algorithm that decide what is sampled -> what to give in their place
    "keep": _ROWS,
    "select": _ROWS,
    "inject": _ROWS,
    "replay": _ROWS,
    "reference": "pass the log-probs of the present reference as ref_logprobs",
}


def refuse_idle_overrides(overrides: Mapping[str, Any]) -> None:
    """Raises ValueError for an override of a part that `policy_loss` does not use."""
    for key, instead in _IDLE.items():
        if overrides.get(key) is not None:
            raise ValueError(f"{key} has no effect on policy_loss: {instead}")


def refuse_unknown_extras(names: Iterable[str]) -> None:
    """Raises ValueError for an extra that no algorithm reads."""
    for name in names:
        if name not in EXTRAS:
            raise ValueError(f"extras: {unknown_name('name', name, EXTRAS, len(EXTRAS))}")


def refuse_uneven_rollouts(rewards: Floats, group: Ints, rollout: Ints) -> None:
    """Raises ValueError where there is not one reward for each row, or where the rows of a rollout have several rewards or
    groups."""
    if rewards.shape != rollout.shape:
        raise ValueError(
            f"rewards: expected one per row, {list(rollout.shape)}, got {list(rewards.shape)}"
        )
    _, first, inverse = np.unique(rollout, return_index=True, return_inverse=True)
    for name, values in (("rewards", rewards), ("group", group)):
        uneven = np.flatnonzero(values != values[first][inverse])
        if len(uneven):
            b = int(uneven[0])
            a = int(first[inverse][b])
            raise ValueError(
                f"{name}: rows {a} and {b} are of one rollout and differ, {values[a]:g} and {values[b]:g}"
            )
