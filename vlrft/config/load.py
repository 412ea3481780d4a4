"""YAML and `key=value` overrides -> Config, with all mistakes reported at once; and Config -> YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from vlrft.config import Config, EvalConfig, PolicyConfig, RolloutConfig, TaskConfig
from vlrft.config.errors import INHERITED, explain
from vlrft.config.renamed import migrate_config
from vlrft.config.shipped import find_config
from vlrft.config.yaml_tree import Tree, apply_override, merge, read_tree
from vlrft.plugins.find import find_task
from vlrft.schema.errors import ConfigError, PluginError
from vlrft.schema.secrets import REDACTED, redact_settings, redacted_keys

LEFT_OUT = f"is {REDACTED}: a run's config.yaml keeps no secrets; give it again, as KEY=VALUE"


def load_config(path: str | Path, overrides: Sequence[str] = (), *, secrets: bool = True) -> Config:
    """The config of a YAML file, or the shipped config of that name, with overrides such as `stages.1.steps=50`.

    A file with `extends: other.yaml` (a path relative to this file) contains only what differs from the other file; lists
    and rewards are replaced as a whole. Each stage starts from the run's `task`, `rollout` and `update`, and gets the
    run's `algorithm` and a unique name unless it has its own. `secrets`: a secret that was left out when the file was
    written is a mistake.

    Raises ConfigError with all mistakes, each with the file and the key.
    """
    tree = read_tree(find_config(path))
    mistakes: list[str] = []
    for item in overrides:
        try:
            apply_override(tree, item)
        except ConfigError as e:
            mistakes += e.mistakes
    if secrets:
        mistakes += [f"{path}: {key}: {LEFT_OUT}" for key in redacted_keys(tree)]
    tree = _complete_stages(tree)
    config = None
    try:
        config = TypeAdapter(Config).validate_python(tree)
    except ValidationError as e:
        in_file = explain(e, Config)
    else:
        in_file = _cross_key_mistakes(config)
    mistakes += [f"{path}: {mistake}" for mistake in [*in_file, *_task_mistakes(tree)]]
    if mistakes or config is None:
        raise ConfigError(mistakes)
    return config


def task_config(name: str, overrides: Sequence[str]) -> TaskConfig:
    """The config of a task by name, with overrides `options.key=value` and `rewards={…}`, for commands without a file."""
    task: TaskConfig = _read_sections(name, overrides, {})[0]
    return task


def eval_config(
    name: str, model: str, overrides: Sequence[str]
) -> tuple[TaskConfig, PolicyConfig, RolloutConfig, EvalConfig]:
    """As `task_config`, with overrides `policy.key=value`, `rollout.key=value` and `eval.key=value`, too."""
    kinds = {"policy": PolicyConfig, "rollout": RolloutConfig, "eval": EvalConfig}
    task, policy, rollout, decoding = _read_sections(
        name, [*overrides, f"policy.model={model}"], kinds
    )
    return task, policy, rollout, decoding


def _read_sections(name: str, overrides: Sequence[str], kinds: Mapping[str, type]) -> list[Any]:
    """The task's config, then the section of each kind."""
    tree: Tree = {"name": name}
    for item in overrides:
        apply_override(tree, item)
    parts: list[tuple[type, Tree, str]] = [(kinds[at], tree.pop(at, {}), at) for at in kinds]
    mistakes = [mistake.removeprefix("name: ") for mistake in _option_mistakes(tree)]
    sections: list[Any] = []
    for kind, section, at in [(TaskConfig, tree, ""), *parts]:
        try:
            sections.append(TypeAdapter(kind).validate_python(section))
        except ValidationError as e:
            mistakes += explain(e, kind, at)
    if mistakes:
        raise ConfigError(mistakes)
    return sections


def dump_config(config: Config) -> str:
    """YAML that loads back to an equal Config, except for secrets, which are left out."""
    return yaml.safe_dump(stored_sections(config), sort_keys=False, allow_unicode=True)


def stored_sections(config: Config) -> Tree:
    """The config as it is stored: plain values by section, without secrets."""
    tree: Tree = redact_settings(TypeAdapter(Config).dump_python(config, mode="json"))
    return tree


def dump_sections(**sections: object) -> str:
    """YAML of some sections by name, such as those of an evaluation, without secrets."""
    trees = {k: TypeAdapter(type(v)).dump_python(v, mode="json") for k, v in sections.items()}
    return yaml.safe_dump(redact_settings(trees), sort_keys=False, allow_unicode=True)


def equals_sections(text: str, **sections: object) -> bool:
    """Whether `text`, which `dump_sections` wrote, states the same settings. An earlier version may have written it: old
    names are replaced, and a key that it lacks has its default."""
    try:
        tree = yaml.safe_load(text)
        migrate_config(tree)
        stored = {k: TypeAdapter(type(sections[k])).validate_python(v) for k, v in tree.items()}
    except (AttributeError, KeyError, ValidationError, yaml.YAMLError):
        return False
    return dump_sections(**stored) == dump_sections(**sections)


def _complete_stages(tree: Tree) -> Tree:
    """A copy in which each stage has its inherited sections, an algorithm and a name."""
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
            stage["name"] = _number(_algorithm_label(stage["algorithm"]), names)
        names.append(stage["name"])
    return tree


def _algorithm_label(algorithm: Any) -> str:
    """The name of an algorithm's choice; of a reference, its attribute."""
    name = algorithm.get("name", "stage") if isinstance(algorithm, Mapping) else str(algorithm)
    return str(name).rpartition(":")[2]


def _number(name: str, taken: Sequence[str]) -> str:
    """The name, or `name_2`, `name_3`, … where it is taken."""
    number = 2
    candidate = name
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _cross_key_mistakes(config: Config) -> list[str]:
    """Mistakes in how keys go together."""
    mistakes: list[str] = []
    if (config.policy.model is None) == (config.policy.build is None):
        mistakes.append(
            "policy: give either model (a hub id or a folder) or build (a small model made here)"
        )
    names = [stage.name for stage in config.stages]
    mistakes += [
        f"stages: two stages are named {name!r}"
        for name in sorted(set(map(str, names)))
        if names.count(name) > 1
    ]
    mistakes += [
        f"stages.{i}.rollout.engine: {stage.rollout.engine!r}, but one engine samples for the whole run; "
        "set rollout.engine"
        for i, stage in enumerate(config.stages)
        if stage.rollout.engine != config.rollout.engine
    ]
    return mistakes


def _task_mistakes(tree: Tree) -> list[str]:
    """Unknown packs and options; a mistake in the run's task is not repeated for the stages that inherit it."""
    stages = tree.get("stages")
    of_run = _option_mistakes(tree.get("task"))
    lines = [f"task.{mistake}" for mistake in of_run]
    for i, stage in enumerate(stages if isinstance(stages, list) else []):
        task = stage.get("task") if isinstance(stage, dict) else None
        of_stage = [mistake for mistake in _option_mistakes(task) if mistake not in of_run]
        lines += [f"stages.{i}.task.{mistake}" for mistake in of_stage]
    return lines


def _option_mistakes(section: Any) -> list[str]:
    """Mistakes in a task's name and options; none for a section that Config itself refuses."""
    try:
        task = TypeAdapter(TaskConfig).validate_python(section)
        options = find_task(task.name).options
    except ValidationError:
        return []
    except PluginError as e:
        return [f"name: {e}"]
    try:
        TypeAdapter(options).validate_python(dict(task.options))
    except ValidationError as e:
        return explain(e, options, "options")
    return []
