"""YAML and `key=value` overrides -> Config, with every mistake reported at once; and back to YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from vlrft.config import Config, EvalConfig, PolicyConfig, RolloutConfig, TaskConfig
from vlrft.config.errors import INHERITED, explain
from vlrft.config.shipped import find_config
from vlrft.config.yaml_tree import Tree, merge, override, read_tree
from vlrft.plugins.find import find_task
from vlrft.schema.errors import ConfigError, PluginError


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file with overrides (`stages.1.steps=50`) applied.

    A file that says `extends: other.yaml` (relative to itself) holds what differs from the other; lists and rewards are
    replaced whole.
    Each stage starts from the run's `task`, `rollout` and `update`, and gets the run's `algorithm` and a unique name
    where it has none. Raises ConfigError with all mistakes, the file and the keys named.
    """
    where = str(path)
    tree = read_tree(find_config(path))
    mistakes: list[str] = []
    for item in overrides:
        try:
            override(tree, item)
        except ConfigError as e:
            mistakes += e.mistakes
    tree = _with_stages(tree)
    config = None
    try:
        config = TypeAdapter(Config).validate_python(tree)
    except ValidationError as e:
        mistakes += [f"{where}: {m}" for m in explain(e, Config)]
    else:
        mistakes += [f"{where}: {m}" for m in _across(config)]
    mistakes += [f"{where}: {m}" for m in _task_mistakes(tree)]
    if mistakes or config is None:
        raise ConfigError(mistakes)
    return config


def task_config(name: str, overrides: Sequence[str]) -> TaskConfig:
    """A task by name with `options.key=value` and `rewards={...}` applied, for commands without a config file."""
    found: TaskConfig = _sections(name, overrides, {})[0]
    return found


def eval_config(
    name: str, model: str, overrides: Sequence[str]
) -> tuple[TaskConfig, PolicyConfig, RolloutConfig, EvalConfig]:
    """The same with `policy.key=value`, `rollout.key=value` and `eval.key=value` besides."""
    kinds = {"policy": PolicyConfig, "rollout": RolloutConfig, "eval": EvalConfig}
    found = _sections(name, [*overrides, f"policy.model={model}"], kinds)
    return found[0], found[1], found[2], found[3]


def _sections(name: str, overrides: Sequence[str], kinds: Mapping[str, type]) -> list[Any]:
    """The task, then a section of each kind."""
    tree: Tree = {"name": name}
    for item in overrides:
        override(tree, item)
    parts: list[tuple[type, Tree, str]] = [(kinds[at], tree.pop(at, {}), at) for at in kinds]
    mistakes = _options_mistakes(tree)
    found: list[Any] = []
    for kind, section, at in [(TaskConfig, tree, ""), *parts]:
        try:
            found.append(TypeAdapter(kind).validate_python(section))
        except ValidationError as e:
            mistakes += explain(e, kind, at)
    if mistakes:
        raise ConfigError(mistakes)
    return found


def dump_sections(**sections: object) -> str:
    """YAML of settings that are no whole config, such as those of an evaluation."""
    trees = {k: TypeAdapter(type(v)).dump_python(v, mode="json") for k, v in sections.items()}
    return yaml.safe_dump(trees, sort_keys=False, allow_unicode=True)


def dump_config(config: Config) -> str:
    """YAML that loads back to an equal Config."""
    tree = TypeAdapter(Config).dump_python(config, mode="json")
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _with_stages(tree: Tree) -> Tree:
    """The tree with each stage's inherited parts merged in."""
    tree = deepcopy(tree)
    if isinstance(tree.get("task"), str):
        tree["task"] = {"name": tree["task"]}
    stages = tree.get("stages")
    if not isinstance(stages, list):
        return tree
    names: list[str] = []
    for stage in stages:
        if not isinstance(stage, dict):
            continue
        for key in INHERITED:
            if key in tree or key in stage:
                stage[key] = merge(tree.get(key, {}), stage.get(key) or {})
        if stage.get("algorithm") is None:
            stage["algorithm"] = tree.get("algorithm", Config.algorithm)
        if stage.get("name") is None:
            stage["name"] = _unique(_label(stage["algorithm"]), names)
        names.append(stage["name"])
    return tree


def _label(algorithm: Any) -> str:
    name = algorithm.get("name", "stage") if isinstance(algorithm, Mapping) else str(algorithm)
    return str(name).rpartition(":")[2]


def _unique(name: str, taken: Sequence[str]) -> str:
    number = 2
    chosen = name
    while chosen in taken:
        chosen, number = f"{name}_{number}", number + 1
    return chosen


def _across(config: Config) -> list[str]:
    """Mistakes that no single key shows."""
    mistakes: list[str] = []
    if (config.policy.model is None) == (config.policy.build is None):
        mistakes.append(
            "policy: give either model (a hub id or a folder) or build (a small model made here)"
        )
    names = [s.name for s in config.stages]
    mistakes += [
        f"stages: the name {n!r} stands twice"
        for n in sorted(set(map(str, names)))
        if names.count(n) > 1
    ]
    mistakes += [
        f"stages.{i}.rollout.engine: {stage.rollout.engine!r}, but one engine samples for the whole run; "
        "set rollout.engine"
        for i, stage in enumerate(config.stages)
        if stage.rollout.engine != config.rollout.engine
    ]
    return mistakes


def _task_mistakes(tree: Tree) -> list[str]:
    """Unknown packs, and options that a pack does not have; the run's own once, not again for each stage."""
    stages = tree.get("stages")
    own = _options_mistakes(tree.get("task"))
    lines = [f"task.{m}" for m in own]
    for i, stage in enumerate(stages if isinstance(stages, list) else []):
        task = stage.get("task") if isinstance(stage, dict) else None
        lines += [f"stages.{i}.task.{m}" for m in _options_mistakes(task) if m not in own]
    return lines


def _options_mistakes(section: Any) -> list[str]:
    try:
        task = TypeAdapter(TaskConfig).validate_python(section)
        options = find_task(task.name).options
    except ValidationError:
        return []  # the config's own check says so
    except PluginError as e:
        return [f"name: {e}"]
    try:
        TypeAdapter(options).validate_python(dict(task.options))
    except ValidationError as e:
        return explain(e, options, "options")
    return []
