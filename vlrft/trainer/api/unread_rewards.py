"""Overrides of rewards that an evaluation, or the grading of stored outputs, would ignore. They are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vlrft.config import RewardConfig, TaskConfig
from vlrft.config.configured import configured_task
from vlrft.config.errors import shorten
from vlrft.schema.errors import ConfigError


def reward_overrides(items: Sequence[str]) -> list[str]:
    """The overrides that set rewards of a task: `rewards={…}`, `task.rewards.NAME=w`."""
    paths = {item: item.partition("=")[0].removeprefix("task.") for item in items}
    return [item for item, path in paths.items() if path.partition(".")[0] == "rewards"]


def refuse_unread_rewards(
    items: Sequence[str],
    task: TaskConfig,
    reader: str,
    *,
    before: TaskConfig | None = None,
    scores: bool = False,
) -> None:
    """Raises ConfigError where the overrides of rewards, `items`, change neither the graders nor, with `scores`, the scores that
    `reader` stores with each answer, which have no weight. Graders follow from rewards where a task has none of its own.
    `before`: the task without these overrides; None: with the rewards of its pack."""
    if not items:
        return
    plain = replace(task, rewards=None) if before is None else before
    graders = configured_task(task)[0].graders
    if graders != configured_task(plain)[0].graders:
        return
    if scores and _without_weights(task) != _without_weights(plain):
        return
    why = (
        "which has no use for weights" if scores else f"as task {task.name} has graders of its own"
    )
    raise ConfigError([f"{shorten(item)}: has no effect on {reader}, {why}" for item in items])


def _without_weights(task: TaskConfig) -> Mapping[str, RewardConfig]:
    """Name of a reward -> its settings, with a weight of 1."""
    if task.rewards is None:
        return {name: RewardConfig() for name in configured_task(task)[0].rewards}
    return {name: replace(reward, weight=1.0) for name, reward in task.rewards.items()}
