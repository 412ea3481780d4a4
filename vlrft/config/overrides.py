"""`key.path=value` of the command line, applied to a config's tree.

An override changes what its path names and nothing else: one reward's weight, one stage's learning rate. `overruled`
finds those that could have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.config import Config
from vlrft.config.errors import shorten
from vlrft.config.reward_overrides import reward_section, set_reward, split_reward
from vlrft.config.stages import stage_names
from vlrft.config.yaml_text import flow_text, has_comment, parse_yaml
from vlrft.config.yaml_tree import Tree, leaves
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError

MAX_PATH = 20  # keys in the path of an override
SOURCES = {("policy", "model"), ("policy", "build")}  # of which a policy has one


@dataclass(frozen=True, kw_only=True)
class Override:
    """One `key.path=value`, with its stage by position and a reward's name as a single key."""

    keys: tuple[str, ...]
    value: Any
    item: str  # as it was written

    @property
    def path(self) -> str:
        return ".".join(self.keys)


def override_of(path: str, value: Any) -> str:
    """The override that sets the path to the value, which is read back as it is, whatever it looks like."""
    return f"{path}={flow_text(value)}"


def overrides_of(values: Mapping[str, Any]) -> list[str]:
    """The overrides for what options of a command or of a function give: path -> value; None: the option is not given."""
    chosen = {path: value for path, value in values.items() if value is not None}
    return [override_of(path, str(v) if isinstance(v, Path) else v) for path, v in chosen.items()]


def apply_overrides(tree: Tree, items: Sequence[str]) -> tuple[list[Override], list[str]]:
    """Applies the overrides in their order; returns them, and a mistake for each that cannot be applied."""
    applied: list[Override] = []
    mistakes: list[str] = []
    names = stage_names(tree)
    for item in items:
        try:
            override = apply_override(tree, item, names)
        except ConfigError as e:
            mistakes += e.mistakes
            continue
        mistakes += _conflicts(override, applied)
        applied.append(override)
    return applied, mistakes


def _conflicts(override: Override, applied: Sequence[Override]) -> Iterator[str]:
    """A mistake for each way in which an override would undo earlier ones."""
    item, keys = shorten(override.item), override.keys
    lost = [e.item for e in applied if len(keys) < len(e.keys) and e.keys[: len(keys)] == keys]
    if lost:
        yield f"{item}: replaces all of {override.path}, {', '.join(map(shorten, lost))} too; give it first"
    values = dict(_values(override))
    for earlier in applied:
        before = dict(_values(earlier))
        if any(value != values.get(path, value) for path, value in before.items()):
            yield f"{item}: {shorten(earlier.item)} is given too; give one of them"
        sources = [
            {p[:2] for p, v in part.items() if v is not None} & SOURCES for part in (values, before)
        ]
        if all(sources) and sources[0] != sources[1]:
            yield f"{item}: {shorten(earlier.item)} is given too, and a policy is either loaded or built; give one of them"


def _values(override: Override) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The paths that an override sets, with their values. One that may be short for a section, such as `gpg` for
    `{name: gpg}` or a weight, is also the value of what it is short for."""
    for keys, value in leaves(override.value, override.keys):
        yield keys, value
        if value is not None:
            yield (*keys, "name" if isinstance(value, str) else "weight"), value


def without_replaced(
    items: Sequence[str], changes: Sequence[str], names: Sequence[Any]
) -> list[str]:
    """The items but those whose path, or a part of it, one of the changes sets. `names`: of the stages, by position."""
    positions = {str(name): str(k) for k, name in enumerate(names)}

    def keys(item: str) -> list[str]:
        parts = item.partition("=")[0].split(".")
        if parts[0] == "stages" and len(parts) > 1:
            parts[1] = positions.get(parts[1], parts[1])
        return parts

    changed = list(map(keys, changes))
    return [item for item in items if not any(keys(item)[: len(c)] == c for c in changed)]


def apply_override(tree: Tree, item: str, names: Sequence[Any] = ()) -> Override:
    """Applies an override `a.b.0.c=value`. Setting policy.model removes policy.build, and the reverse.

    `names`: of the stages as they were before any override; a stage is addressed by its present name, too. Raises
    ConfigError for an item that is no override, or a path that does not exist.
    """
    path, equals, text = item.partition("=")
    parts, reward = split_reward(path)
    if not equals or not all(parts):
        raise ConfigError([f"{shorten(item)}: expected key.path=value"])
    if len(parts) > MAX_PATH:
        raise ConfigError([f"{shorten(item)}: a path of more than {MAX_PATH} keys"])
    try:
        value = parse_yaml(text)
    except ValueError as e:
        raise ConfigError([f"{shorten(item)}: the value is not valid YAML: {e}"]) from None
    if has_comment(text):
        raise ConfigError(
            [f"{shorten(item)}: of YAML, # after a space begins a comment; put the value in quotes"]
        )
    if parts[0] == "stages" and len(parts) > 1:
        parts[1] = _stage_index(tree, parts[1], names)
    if reward:
        keys = (*parts, *set_reward(reward_section(tree, parts), reward, value, path))
        return Override(keys=keys, value=deepcopy(value), item=item)
    *parents, last = parts
    if "algorithm" in parents:
        _name_algorithm(tree, parts)
    node: Any = tree
    for k, part in enumerate(parents):
        node = _child(node, part, ".".join(parents[: k + 1]))
    if isinstance(node, list):
        node[list_index(node, last, path)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise ConfigError([f"{item}: {'.'.join(parents)} is not a section"])
    for one, other in (("model", "build"), ("build", "model")):
        if parts[:2] == ["policy", one] and value is not None:
            tree["policy"].pop(other, None)
    return Override(keys=tuple(parts), value=deepcopy(value), item=item)


def _stage_index(tree: Tree, part: str, names: Sequence[Any]) -> str:
    """The position of the stage of that name; a position is returned as it is."""
    stages = tree.get("stages")
    if not isinstance(stages, list) or not stages or part.isdecimal():
        return part
    for known in (stage_names(tree), list(names)):
        if part in known and known.index(part) < len(stages):
            return str(known.index(part))
    present = [str(name) for name in stage_names(tree)]
    hint = did_you_mean(part, present) or ";"
    listed = ", ".join(f"{k} or {name}" for k, name in enumerate(present))
    raise ConfigError([f"stages.{shorten(part)}: no such stage{hint} there are {listed}"])


def _name_algorithm(tree: Tree, keys: Sequence[str]) -> None:
    """Writes out the algorithm that a run or a stage has by default, before one of its settings is changed."""
    if keys[0] == "algorithm" and tree.get("algorithm") is None:
        tree["algorithm"] = {"name": Config.algorithm}
    stages = tree.get("stages")
    if keys[0] == "stages" and keys[2:3] == ["algorithm"] and isinstance(stages, list):
        stage = stages[list_index(stages, keys[1], ".".join(keys[:2]))]
        if isinstance(stage, dict) and stage.get("algorithm") is None:
            stage["algorithm"] = deepcopy(tree.get("algorithm", Config.algorithm))


def _child(node: Any, part: str, path: str) -> Any:
    if isinstance(node, list):
        return node[list_index(node, part, path)]
    if not isinstance(node, dict):
        raise ConfigError([f"{path}: is not a section, so no key of it can be set"])
    if node.get(part) is None:
        node[part] = {}
    if isinstance(node[part], str):  # such as `task: digits`, which is short for {name: digits}
        node[part] = {"name": node[part]}
    return node[part]


def list_index(node: list[Any], part: str, path: str) -> int:
    """The position in a list that `part` names. Raises ConfigError."""
    if not node:
        raise ConfigError([f"{path}: the list is empty"])
    if not part.isdecimal() or int(part) >= len(node):
        raise ConfigError([f"{path}: expected a number from 0 to {len(node) - 1}"])
    return int(part)
