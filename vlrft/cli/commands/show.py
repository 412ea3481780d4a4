"""vlrft show: a config with all its keys, or a description of a task, a reward or an algorithm."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path

from vlrft.config.field_docs import field_docs
from vlrft.config.load import dump_config, load_config
from vlrft.config.shipped import shipped_configs
from vlrft.plugins.find import find_reward, find_task, load_attribute, reward_names, task_names
from vlrft.plugins.names import did_you_mean
from vlrft.schema import Task
from vlrft.schema.errors import PluginError


def run(args: argparse.Namespace) -> None:
    name: str = args.name
    if Path(name).suffix in (".yaml", ".yml") or name in shipped_configs():
        show_config(name, args.overrides)
    elif ":" in name:
        show_reference(name)
    elif name in task_names():
        show_task(find_task(name))
    elif name in reward_names():
        print(f"{name}\n{inspect.getdoc(find_reward(name))}")
    else:
        show_algorithm(name)


def show_config(name: str, overrides: Sequence[str]) -> None:
    """The config with all its keys, after the names and settings of its engines have been checked too."""
    from vlrft.engine import find_engine
    from vlrft.rollout.engines import find_rollout_engine

    config = load_config(name, overrides)
    find_engine(config.engine)
    find_rollout_engine(config.rollout.engine)
    print(dump_config(config), end="")


def show_reference(reference: str) -> None:
    """A task, a reward or an algorithm outside of vlrft."""
    thing = load_attribute(reference)
    if isinstance(thing, Task):
        show_task(thing)
    elif callable(thing):
        print(f"{reference}\n{inspect.getdoc(thing) or 'has no docstring'}")
    else:
        show_algorithm(reference)


def show_task(task: Task) -> None:
    print(f"{task.name}: {task.doc}")
    print(f"splits: {', '.join(task.splits)}")
    print(f"rewards: {', '.join(f'{k} × {v}' for k, v in task.rewards.items())}")
    print("options:")
    docs = field_docs(task.options)
    for field in dataclasses.fields(task.options):
        print(f"  {field.name}: {field.type} = {field.default!r}")
        if field.name in docs:
            print(f"      {docs[field.name]}")


def show_algorithm(name: str) -> None:
    from vlrft.algorithms import ALGORITHMS, find_algorithm

    if ":" not in name and name not in ALGORITHMS:
        names = [*task_names(), *reward_names(), *ALGORITHMS, *shipped_configs()]
        raise PluginError(
            f"unknown name {name!r}{did_you_mean(name, names)}; `vlrft list` prints tasks and rewards, "
            "`vlrft list algorithms` and `vlrft list configs` the others"
        )
    algorithm = find_algorithm(name)
    print(name)
    for key, value in algorithm.describe().items():
        print(f"  {key}: {value}")
    print(f"\n{inspect.getdoc(type(algorithm.objective))}")
