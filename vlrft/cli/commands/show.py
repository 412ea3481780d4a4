"""vlrft show: a config with all its keys, or a description of a task, a reward, an algorithm, an engine or a published system."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vlrft.config import RewardConfig
from vlrft.config.configured import configured_task
from vlrft.config.field_docs import field_docs
from vlrft.config.load import dump_config, load_config, task_config
from vlrft.config.shipped import shipped_configs
from vlrft.config.systems import PREFIX, System, find_system
from vlrft.config.unread import refuse_unread
from vlrft.data import Dataset, Layouts
from vlrft.plugins.find import find_reward, find_task, load_attribute, reward_names, task_names
from vlrft.plugins.names import did_you_mean
from vlrft.schema import DataError, Task
from vlrft.schema.errors import ConfigError, PluginError

UNREAD = {"env": "", "examples": "", "on_bad": ""}  # sections of a task that its description lacks


def run(args: argparse.Namespace) -> None:
    name: str = args.name
    of_task = all(item.startswith(("options.", "rewards")) for item in args.overrides)
    if name in shipped_configs() and name in task_names() and of_task:
        show_task(name, args.overrides)
        print(f"\nconfig {name}:")
        print(dump_config(load_config(name, [f"task.{item}" for item in args.overrides])), end="")
    elif name.startswith(PREFIX):
        show_system(find_system(name), args.overrides)
    elif Path(name).suffix in (".yaml", ".yml") or name in shipped_configs():
        show_config(name, args.overrides)
    elif ":" in name:
        show_reference(name, args.overrides)
    elif name in task_names():
        show_task(name, args.overrides)
    else:
        refuse_overrides(name, args.overrides)
        show_reward(name) if name in reward_names() else show_algorithm(name)


def refuse_overrides(name: str, overrides: Sequence[str]) -> None:
    """Raises ConfigError for overrides of what has no settings to show them in."""
    if overrides:
        raise ConfigError(
            [f"{overrides[0]}: {name} is neither a config nor a task, so it has no effect"]
        )


def show_reward(name: str) -> None:
    print(f"{name}\n{inspect.getdoc(find_reward(name))}")


def show_system(system: System, overrides: Sequence[str]) -> None:
    """A published system, and its config with all its keys where it has one."""
    for key, value in dataclasses.asdict(system).items():
        if value and key not in ("config", "stage", "base", "reduces"):
            print(f"{key}: {', '.join(value) if isinstance(value, list | tuple) else value}")
    for reduction in system.reduces:
        print(f"is system {reduction}")
    if not system.runs:
        if overrides:
            raise ConfigError(
                [f"system:{system.id} is {system.status}: it has no config to change"]
            )
        return
    print(f"\nconfig, {system.base} with changes; vlrft train system:{system.id} runs it:")
    show_config(f"{PREFIX}{system.id}", overrides)


def show_config(name: str, overrides: Sequence[str]) -> None:
    """The config with all its keys, after its algorithms and engines have been checked too."""
    from vlrft.engine import find_engine
    from vlrft.rollout.engines import find_rollout_engine
    from vlrft.trainer.stage_settings import find_choices

    config = load_config(name, overrides)
    find_choices(config)
    find_engine(config.engine)
    find_rollout_engine(config.rollout.engine)
    print(dump_config(config), end="")


def show_reference(reference: str, overrides: Sequence[str]) -> None:
    """A task, a reward or an algorithm outside of vlrft."""
    thing = load_attribute(reference)
    if isinstance(thing, Task):
        show_task(reference, overrides)
        return
    refuse_overrides(reference, overrides)
    if callable(thing):
        print(f"{reference}\n{inspect.getdoc(thing) or 'has no docstring'}")
    else:
        show_algorithm(reference)


def show_task(name: str, overrides: Sequence[str]) -> None:
    """A task with these options; where it needs some to have rewards, and there are none, it says so in their place."""
    refuse_unread(overrides, UNREAD, "the description of a task")
    config = task_config(name, overrides)
    task = find_task(name)
    try:
        task, _ = configured_task(config)
        weights = task.rewards if config.rewards is None else weights_of(config.rewards)
        rewards = ", ".join(f"{k} × {v}" for k, v in weights.items())
    except (ConfigError, DataError) as e:
        if overrides:
            raise
        rewards = str(e)
    print(f"{task.name}: {task.doc}")
    print(f"splits: {', '.join(task.splits)}")
    print(f"rewards: {rewards}")
    print("options:")
    print_fields(task.options)
    if isinstance(task.load, Dataset):
        show_data(task, task.load, config.options)


def weights_of(rewards: Mapping[str, RewardConfig]) -> Mapping[str, float]:
    """Name of a reward -> its weight."""
    return {name: reward.weight for name, reward in rewards.items()}


def show_data(task: Task, load: Dataset, options: Mapping[str, Any]) -> None:
    """Where a task's data are if its options do not say it, and the forms in which it reads them."""
    values = TypeAdapter(task.options).validate_python(dict(options))
    places = load.places(values)
    print("data:")
    for split in task.splits:
        print(f"  {split}: {places.get(split, 'not on the hub; give its place with options.data')}")
    if isinstance(load.read, Layouts):
        print("forms of the data:")
        for layout in load.read.layouts:
            if any(layout.is_of(split, values) for split in task.splits):
                print(f"  {', '.join(layout.splits) or 'each split'}: {layout.name}")
    if load.synthetic is not None:
        print(f"without a download: vlrft data prepare {task.name} --synthetic 200 --out DIR")


def show_engine(name: str, kind: type[Any]) -> None:
    """A train engine or a rollout engine with its settings."""
    print(f"{name}\n{inspect.getdoc(kind) or 'has no docstring'}")
    if dataclasses.fields(kind):
        print("settings:")
        print_fields(kind)


def print_fields(kind: type[Any]) -> None:
    """The fields of a dataclass: name, type, default and docstring."""
    docs = field_docs(kind)
    for field in dataclasses.fields(kind):
        hint = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        print(f"  {field.name}: {hint} = {default!r}")
        if field.name in docs:
            print(f"      {docs[field.name]}")


def show_algorithm(name: str) -> None:
    from vlrft.algorithms import ALGORITHMS, find_algorithm
    from vlrft.engine import ENGINES
    from vlrft.rollout.engines import ROLLOUT_ENGINES

    for engines in (ENGINES, ROLLOUT_ENGINES):
        if ":" not in name and name in engines:
            show_engine(name, engines[name])
            return
    if ":" not in name and name not in ALGORITHMS:
        names = [*task_names(), *reward_names(), *ALGORITHMS, *shipped_configs()]
        names += [*ENGINES, *ROLLOUT_ENGINES]
        raise PluginError(
            f"unknown name {name!r}{did_you_mean(name, names) or ';'} `vlrft list` prints tasks and rewards, "
            "`vlrft list algorithms`, `configs`, `engines` and `systems` the others"
        )
    algorithm = find_algorithm(name)
    print(name)
    for key, value in algorithm.describe().items():
        print(f"  {key}: {value}")
    print(f"\n{inspect.getdoc(type(algorithm.objective))}")
