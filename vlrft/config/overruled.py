"""Overrides of a run's sections that stages overrule: `update.lr=1e-5` where each stage has a learning rate of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlrft.config.errors import INHERITED, shorten, show
from vlrft.config.overrides import Override
from vlrft.config.stages import complete_stages
from vlrft.config.yaml_text import flow_text
from vlrft.config.yaml_tree import REPLACED, Tree

MISSING = object()


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
                if value != present and not _is_given(("stages", str(k), *keys), overrides):
                    owners[str(name)] = value
            if owners and (keys[0] != "algorithm" or len(owners) == len(stages)):
                mistakes.append(_overruled_line(".".join(keys), text, owners))
    return mistakes


def _overruled_line(path: str, text: str, owners: Mapping[str, Any]) -> str:
    """`owners`: the stages that set the key themselves, with their values."""
    listed = " and ".join(f"{name} ({_own_value(value)})" for name, value in owners.items())
    stages, set_own = ("stage", "sets its own") if len(owners) == 1 else ("stages", "set their own")
    ways = " ".join(f"stages.{name}.{path}={text}" for name in owners)
    return f"{shorten(f'{path}={text}')}: has no effect on {stages} {listed}, which {set_own}; set {ways}"


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


def _is_given(keys: tuple[str, ...], overrides: Sequence[Override]) -> bool:
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
