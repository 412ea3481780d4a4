"""YAML and `key=value` overrides -> Config, with all mistakes reported at once; and Config -> YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from vlrft.config import Config, EvalConfig, PolicyConfig, RolloutConfig, TaskConfig
from vlrft.config.errors import explain
from vlrft.config.idle_keys import find_idle_keys
from vlrft.config.overrides import apply_overrides, overrides_of
from vlrft.config.overruled import overruled_by_stages
from vlrft.config.renamed import migrate_config
from vlrft.config.shipped import find_config
from vlrft.config.stages import complete_stages
from vlrft.config.systems import PREFIX, find_system, system_tree
from vlrft.config.yaml_tree import Tree, read_tree
from vlrft.plugins.find import find_task, reward_reference
from vlrft.schema.errors import ConfigError, PluginError
from vlrft.schema.secrets import REDACTED, redact_settings, redacted_keys

LEFT_OUT = f"is {REDACTED}: a run's config.yaml keeps no secrets; give it again, as KEY=VALUE"


def load_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    secrets: bool = True,
    to_train: bool = True,
) -> Config:
    """The config of a YAML file, the shipped config of that name, or that of a published system (`system:100`), with
    overrides such as `stages.1.steps=50` or `stages.gpg.steps=50`.

    A file with `extends: other.yaml` (a path relative to this file) contains only what differs from the other file; lists
    and rewards are replaced as a whole. Each stage starts from the run's `task`, `rollout` and `update`, and gets the
    run's `algorithm` and a unique name unless it has its own. The override `task.rewards.NAME=w` changes one reward and
    keeps the others. `secrets`: a secret that was left out when the file was written is a mistake. `to_train`: an
    override that stages overrule is a mistake; an evaluation reads no stages.

    Raises ConfigError with all mistakes, each with the file and the key.
    """
    of_system = str(path).startswith(PREFIX)
    tree = system_tree(find_system(str(path))) if of_system else read_tree(find_config(path))
    return resolve_config(tree, str(path), overrides, secrets=secrets, to_train=to_train)


def resolve_config(
    tree: Tree,
    where: str,
    overrides: Sequence[str] = (),
    *,
    secrets: bool = True,
    to_train: bool = True,
) -> Config:
    """As `load_config`, of the content of a file, which the overrides change. `where`: its name in messages."""
    applied, mistakes = apply_overrides(tree, overrides)
    if secrets:
        mistakes += [f"{where}: {key}: {LEFT_OUT}" for key in redacted_keys(tree)]
    overruled = overruled_by_stages(tree, applied) if to_train else []
    tree = complete_stages(tree)
    config = None
    try:
        config = TypeAdapter(Config).validate_python(tree)
    except ValidationError as e:
        in_file = explain(e, Config)
    else:
        in_file = _cross_key_mistakes(config)
        mistakes += overruled
    mistakes += [f"{where}: {mistake}" for mistake in [*in_file, *_task_mistakes(tree)]]
    if mistakes or config is None:
        raise ConfigError(mistakes)
    return config


def task_config(name: str, overrides: Sequence[str]) -> TaskConfig:
    """The config of a task by name, with overrides `options.key=value` and `rewards={…}`, for commands without a file."""
    task: TaskConfig = _read_sections(name, overrides, {})[0]
    return task


def prepare_config(
    name: str, model: str, overrides: Sequence[str]
) -> tuple[TaskConfig, PolicyConfig]:
    """As `task_config`, with overrides `policy.key=value`, too: its bounds of pixels decide how long a prompt is."""
    task, policy = _read_sections(
        name, [*overrides, *overrides_of({"policy.model": model})], {"policy": PolicyConfig}
    )
    return task, policy


def eval_config(
    name: str, model: str, overrides: Sequence[str]
) -> tuple[TaskConfig, PolicyConfig, RolloutConfig, EvalConfig]:
    """As `task_config`, with overrides `policy.key=value`, `rollout.key=value` and `eval.key=value`, too."""
    kinds = {"policy": PolicyConfig, "rollout": RolloutConfig, "eval": EvalConfig}
    task, policy, rollout, decoding = _read_sections(
        name, [*overrides, *overrides_of({"policy.model": model})], kinds
    )
    return task, policy, rollout, decoding


def _read_sections(name: str, overrides: Sequence[str], kinds: Mapping[str, type]) -> list[Any]:
    """The task's config, then the section of each kind."""
    paths = [item.partition("=")[0] for item in overrides]
    whole = [path for path in paths if path.startswith("task.")]
    if whole:
        raise ConfigError(
            [f"{path}: the task is named here, so give {path[len('task.') :]}=…" for path in whole]
        )
    tree: Tree = {"name": name}
    _, mistakes = apply_overrides(tree, overrides)
    parts: list[tuple[type, Tree, str]] = [(kinds[at], tree.pop(at, {}), at) for at in kinds]
    mistakes += [mistake.removeprefix("name: ") for mistake in _option_mistakes(tree)]
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


def _cross_key_mistakes(config: Config) -> list[str]:
    """Mistakes in how keys go together."""
    mistakes: list[str] = []
    policy = config.policy
    sources = (policy.model is not None) + (policy.build is not None)
    if sources > 1 or (sources == 0 and policy.adapter is None):  # an adapter names its base itself
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
    return [*mistakes, *find_idle_keys(config)]


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
    """Mistakes in a task's name, rewards and options; none for a section that Config itself refuses."""
    try:
        task = TypeAdapter(TaskConfig).validate_python(section)
        options = find_task(task.name).options
    except ValidationError:
        return []
    except PluginError as e:
        return [f"name: {e}"]
    lines = _unknown_rewards(task.rewards or {})
    try:
        TypeAdapter(options).validate_python(dict(task.options))
    except ValidationError as e:
        lines += explain(e, options, "options")
    return lines


def _unknown_rewards(names: Iterable[str]) -> list[str]:
    """A line for each name that no reward has. Files and modules are looked up when a run starts."""
    lines: list[str] = []
    for name in names:
        if ":" not in name and not name.endswith(".py"):
            try:
                reward_reference(name)
            except PluginError as e:
                lines.append(f"rewards: {e}")
    return lines
