"""Overrides of single rewards: `task.rewards.format=0.5` changes one weight and keeps the others, `null` removes one.

A config whose `task.rewards` is null has its pack's rewards; they are written out before one of them is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vlrft.config.configured import configured_task
from vlrft.config.task import RewardConfig, TaskConfig
from vlrft.config.yaml_tree import Tree
from vlrft.plugins.find import find_task
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError, DataError, PluginError
from vlrft.schema.short_message import first_line

SETTINGS = frozenset(field.name for field in fields(RewardConfig))


def split_reward(path: str) -> tuple[list[str], str]:
    """The keys of a path down to `rewards`, and the rest of it, which begins with a reward's name. The name may contain
    dots, as `math_answer.r1v` and `./mine.py` do. `rewards.NAME` alone is of a task without a config.

    >>> split_reward("stages.gpg.task.rewards.math_answer.r1v")
    (['stages', 'gpg', 'task', 'rewards'], 'math_answer.r1v')
    >>> split_reward("update.lr")
    (['update', 'lr'], '')
    """
    parts = path.split(".")
    for depth in (1, 2, 4):
        head = parts[:depth]
        stage = depth != 4 or head[0] == "stages"
        if stage and head[-2:] in (["rewards"], ["task", "rewards"]) and len(parts) > depth:
            return head, ".".join(parts[depth:])
    return parts, ""


def reward_section(tree: Tree, keys: list[str]) -> Tree:
    """The rewards that `keys` lead to, written out where they are inherited from the run or from the pack.

    Raises ConfigError where there is no task to inherit from.
    """
    owner: Any = tree
    if keys[0] == "stages":
        stages = tree.get("stages")
        if not isinstance(stages, list) or not keys[1].isdecimal() or int(keys[1]) >= len(stages):
            count = len(stages) if isinstance(stages, list) else 0
            raise ConfigError([f"{'.'.join(keys[:2])}: no such stage; there are {count}"])
        owner = stages[int(keys[1])]
    if keys[-2:] == ["task", "rewards"]:
        run_task = _section(tree, "task", ".".join(keys))
        task = _section(owner, "task", ".".join(keys))
    else:
        run_task = task = tree
    if task.get("rewards") is None:
        inherited = run_task.get("rewards")
        if inherited is None and task is run_task:
            _keep_pack_rewards(tree, str(task.get("name")))
        task["rewards"] = _pack_rewards(task, run_task) if inherited is None else dict(inherited)
    rewards = task["rewards"]
    if not isinstance(rewards, dict):
        raise ConfigError([f"{'.'.join(keys)}: is not a section, so no key of it can be set"])
    return rewards


def set_reward(rewards: Tree, reward: str, value: Any, path: str) -> tuple[str, ...]:
    """Sets a reward's weight, its section, or one setting of it; null removes it. Returns the keys that were set.

    Raises ConfigError for a reward that is to be removed and is not there.
    """
    name, _, setting = reward.rpartition(".")
    if reward not in rewards and name and setting in SETTINGS:
        entry = rewards.get(name, {})
        rewards[name] = {
            **(entry if isinstance(entry, dict) else {"weight": entry}),
            setting: value,
        }
        return (name, setting)
    if value is not None:
        rewards[reward] = value
    elif reward in rewards:
        del rewards[reward]
    else:
        hint = did_you_mean(reward, rewards) or ";"
        raise ConfigError(
            [f"{path}: no such reward to remove{hint} there are {', '.join(rewards) or 'none'}"]
        )
    return (reward,)


def _section(owner: Any, key: str, path: str) -> Tree:
    """The section `key` of a run or a stage, made where there is none; `task: digits` is short for {name: digits}."""
    if not isinstance(owner, dict):
        raise ConfigError([f"{path}: is not in a section"])
    section = owner.get(key)
    if section is None or isinstance(section, str):
        section = owner[key] = {} if section is None else {"name": section}
    if not isinstance(section, dict):
        raise ConfigError([f"{path}: {key} is not a section"])
    return section


def _keep_pack_rewards(tree: Tree, pack: str) -> None:
    """Writes out the rewards of the stages that train on another pack, which would inherit those of the run's pack."""
    stages = tree.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        task = stage.get("task") if isinstance(stage, dict) else None
        if (
            isinstance(task, dict)
            and task.get("rewards") is None
            and task.get("name", pack) != pack
        ):
            task["rewards"] = _pack_rewards(task, task)


def _pack_rewards(task: Mapping[str, Any], run_task: Mapping[str, Any]) -> Tree:
    """The rewards of the pack that a task names; none for an unknown pack, which is a mistake of its own."""
    name = str(task.get("name", run_task.get("name")))
    options = {**(run_task.get("options") or {}), **(task.get("options") or {})}
    try:
        if find_task(name).configure is None:
            return dict(find_task(name).rewards)
        config = TypeAdapter(TaskConfig).validate_python({"name": name, "options": options})
        return dict(configured_task(config)[0].rewards)
    except PluginError:
        return {}
    except (ConfigError, DataError, ValidationError) as e:
        problem = (
            first_line(e) if isinstance(e, ConfigError | DataError) else "its options are wrong"
        )
        raise ConfigError(
            [f"the rewards of {name} follow from its options, which come before them: {problem}"]
        ) from e
