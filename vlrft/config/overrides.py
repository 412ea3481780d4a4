"""`key.path=value` of the command line, applied to a config's tree.

An override changes what its path names and nothing else: one reward's weight, one stage's learning rate. One that could
have no effect, as the stages set the key themselves, is refused by `overruled_by_stages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlrft.config.errors import INHERITED, MAX_SHOWN, show
from vlrft.config.reward_overrides import reward_section, set_reward, split_reward
from vlrft.config.stages import complete_stages, stage_names
from vlrft.config.yaml_text import flow_text, parse_yaml
from vlrft.config.yaml_tree import REPLACED, Tree
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError

MAX_PATH = 20  # keys in the path of an override
MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Override:
    """One `key.path=value`, with its stage by position and a reward's name as a single key."""

    keys: tuple[str, ...]
    value: Any
    item: str  # as it was written

    @property
    def path(self) -> str:
        return ".".join(self.keys)


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
        lost = [
            earlier.item
            for earlier in applied
            if len(override.keys) < len(earlier.keys)
            and earlier.keys[: len(override.keys)] == override.keys
        ]
        if lost:
            mistakes.append(
                f"{_shorten(item)}: replaces all of {override.path}, {', '.join(map(_shorten, lost))} too; give it first"
            )
        applied.append(override)
    return applied, mistakes


def apply_override(tree: Tree, item: str, names: Sequence[Any] = ()) -> Override:
    """Applies an override `a.b.0.c=value`. Setting policy.model removes policy.build, and the reverse.

    `names`: of the stages as they were before any override; a stage is addressed by its present name, too. Raises
    ConfigError for an item that is no override, or a path that does not exist.
    """
    path, equals, text = item.partition("=")
    parts, reward = split_reward(path)
    if not equals or not all(parts):
        raise ConfigError([f"{_shorten(item)}: expected key.path=value"])
    if len(parts) > MAX_PATH:
        raise ConfigError([f"{_shorten(item)}: a path of more than {MAX_PATH} keys"])
    try:
        value = parse_yaml(text)
    except ValueError as e:
        raise ConfigError([f"{_shorten(item)}: the value is not valid YAML: {e}"]) from None
    if parts[0] == "stages" and len(parts) > 1:
        parts[1] = _stage_index(tree, parts[1], names)
    if reward:
        keys = (*parts, *set_reward(reward_section(tree, parts), reward, value, path))
        return Override(keys=keys, value=value, item=item)
    node: Any = tree
    *parents, last = parts
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
    return Override(keys=tuple(parts), value=value, item=item)


def overruled_by_stages(tree: Tree, overrides: Sequence[Override]) -> list[str]:
    """A mistake for each override of a section that stages inherit, where a stage sets the same key itself.

    `tree`: with all overrides applied. A stage whose key, or whose section, is on the command line too is left alone: there
    both values are meant. An algorithm may be a single stage's own: it is a mistake where no stage inherits the run's.
    """
    stages = tree.get("stages")
    if not isinstance(stages, list):
        return []
    completed = complete_stages(tree)
    names = [stage.get("name") for stage in completed["stages"] if isinstance(stage, dict)]
    mistakes: list[str] = []
    for override in overrides:
        if override.keys[0] not in (*INHERITED, "algorithm") or len(names) < len(stages):
            continue
        for keys, text in _leaves(override):
            present = _value_at(completed, keys)
            owners: dict[str, Any] = {}
            for k, name in enumerate(names):
                value = _value_at(completed["stages"][k], keys)
                if value != present and not _given(("stages", str(k), *keys), overrides):
                    owners[str(name)] = value
            if owners and (keys[0] != "algorithm" or len(owners) == len(stages)):
                mistakes.append(_overruled_line(".".join(keys), text, owners))
    return mistakes


def _overruled_line(path: str, text: str, owners: Mapping[str, Any]) -> str:
    """`owners`: the stages that set the key themselves, with their values."""
    listed = " and ".join(f"{name} ({_own_value(value)})" for name, value in owners.items())
    stages, set_own = ("stage", "sets its own") if len(owners) == 1 else ("stages", "set their own")
    ways = " ".join(f"stages.{name}.{path}={text}" for name in owners)
    return f"{_shorten(f'{path}={text}')}: has no effect on {stages} {listed}, which {set_own}; set {ways}"


def _leaves(override: Override) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys that an override sets, each with its value as text. Rewards are one value, as stages inherit all or none."""
    _, _, text = override.item.partition("=")
    if override.keys == ("task",) and isinstance(override.value, str):
        yield ("task", "name"), text
    elif override.keys[0] == "algorithm":
        yield override.keys, text
    else:
        yield from _leaves_below(override.keys, override.value, text)


def _leaves_below(
    keys: tuple[str, ...], value: Any, text: str
) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping) and keys[-1] not in REPLACED and keys[-2:-1] != ("rewards",):
        for key, part in value.items():
            yield from _leaves_below((*keys, str(key)), part, flow_text(part))
    else:
        yield keys, text


def _own_value(value: Any) -> str:
    return "without it" if value is MISSING else show(value)


def _given(keys: tuple[str, ...], overrides: Sequence[Override]) -> bool:
    """Whether an override sets these keys, a section that they are in, or something in them."""
    return any(
        all(a == b for a, b in zip(keys, override.keys, strict=False)) for override in overrides
    )


def _value_at(node: Any, keys: Sequence[str]) -> Any:
    """The value below `keys`; MISSING where there is none."""
    for key in keys:
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, Mapping) and key in node:
            node = node[key]
        else:
            return MISSING
    return node


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
    raise ConfigError([f"stages.{_shorten(part)}: no such stage{hint} there are {listed}"])


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


def _shorten(item: str) -> str:
    return item if len(item) <= MAX_SHOWN else f"{item[:MAX_SHOWN]}…"
