"""YAML and `key=value` overrides -> Config, with every mistake reported at once; and back to YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from vlrft.config import (
    Config,
    ConfigError,
    EvalConfig,
    PolicyConfig,
    RolloutConfig,
    TaskConfig,
)
from vlrft.mistakes import INHERITED, explain
from vlrft.plugins import PluginError, find_task
from vlrft.shipped import find_config

Tree = dict[str, Any]
WHOLE = ("rewards", "published")  # sections that are replaced, not merged


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file with overrides (`stages.1.steps=50`) applied.

    A file that says `extends: other.yaml` (relative to itself) holds what differs from the other; lists and rewards are
    replaced whole.
    Each stage starts from the run's `task`, `rollout` and `update`, and gets the run's `algorithm` and a unique name
    where it has none. Raises ConfigError with all mistakes, the file and the keys named.
    """
    where = str(path)
    tree = _extended(find_config(path))
    mistakes: list[str] = []
    for item in overrides:
        try:
            _override(tree, item)
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
        _override(tree, item)
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


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice and reads 1e-6 as a number."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Tree:
    merge = "tag:yaml.org,2002:merge"  # `<<: *other` may stand for keys that are given again
    keys = [loader.construct_object(key) for key, _ in node.value if key.tag != merge]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} stands twice", node.start_mark
            )
    return {str(k): v for k, v in loader.construct_mapping(node, deep=True).items()}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _parse(text: str) -> Any:
    return yaml.load(text, _Loader)  # a SafeLoader


def _read(path: Path) -> Tree:
    try:
        found = _parse(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise ConfigError([f"{path}: cannot be read ({e.strerror})"]) from None
    except (yaml.YAMLError, ValueError) as e:  # ValueError: not UTF-8, or a date such as 2026-13-45
        raise ConfigError([f"{path}: not valid YAML: {' '.join(str(e).split())}"]) from None
    if not isinstance(found, dict):
        kind = "is empty" if found is None else f"holds a {type(found).__name__}"
        raise ConfigError([f"{path}: {kind}; expected keys such as task, policy and stages"])
    return found


def _extended(path: Path, above: tuple[Path, ...] = ()) -> Tree:
    """The file's tree, merged into that of the file which it extends."""
    tree = _read(path)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise ConfigError([f"{path}: extends: expected the name of a file, got {base!r}"])
    chain = (*above, path.resolve())
    other = path.parent / base
    if other.resolve() in chain:
        raise ConfigError([f"{path}: extends: {base} extends this file in turn"])
    return cast(Tree, _merge(_extended(other, chain), tree))


def _override(tree: Tree, item: str) -> None:
    """Sets `a.b.0.c=value` in the tree. Setting policy.model clears policy.build, and the other way round."""
    path, equals, text = item.partition("=")
    if not equals or not all(path.split(".")):
        raise ConfigError([f"{item}: expected key.path=value"])
    try:
        value = _parse(text)
    except (yaml.YAMLError, ValueError):
        raise ConfigError([f"{item}: the value is not valid YAML"]) from None
    *parents, last = path.split(".")
    node: Any = tree
    for k, part in enumerate(parents):
        node = _child(node, part, ".".join(parents[: k + 1]))
    if isinstance(node, list):
        node[_index(node, last, path)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise ConfigError([f"{item}: {'.'.join(parents)} holds no keys"])
    for one, other in (("model", "build"), ("build", "model")):
        if path.split(".")[:2] == ["policy", one] and value is not None:
            tree["policy"].pop(other, None)


def _child(node: Any, part: str, path: str) -> Any:
    if isinstance(node, list):
        return node[_index(node, part, path)]
    if not isinstance(node, dict):
        raise ConfigError([f"{path}: there is no such key to set something in"])
    if node.get(part) is None:
        node[part] = {}
    if isinstance(node[part], str):  # `task: digits` and the like have a name only
        node[part] = {"name": node[part]}
    return node[part]


def _index(node: list[Any], part: str, path: str) -> int:
    if not node:
        raise ConfigError([f"{path}: the list is empty"])
    if not part.isdecimal() or int(part) >= len(node):
        raise ConfigError([f"{path}: expected a number from 0 to {len(node) - 1}"])
    return int(part)


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
                stage[key] = _merge(tree.get(key, {}), stage.get(key) or {})
        if stage.get("algorithm") is None:
            stage["algorithm"] = tree.get("algorithm", Config.algorithm)
        if stage.get("name") is None:
            stage["name"] = _unique(_label(stage["algorithm"]), names)
        names.append(stage["name"])
    return tree


def _merge(base: Any, changes: Any) -> Any:
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return deepcopy(changes)
    keys = [*base, *(k for k in changes if k not in base)]
    out: Tree = {}
    for k in keys:
        if k not in changes:
            out[k] = deepcopy(base[k])
        else:
            out[k] = _merge(None if k in WHOLE else base.get(k), changes[k])
    return out


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
