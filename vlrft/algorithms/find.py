"""Methods by name, and parts of them overridden.

A method of your own: a frozen dataclass with `needs` and `__call__` (see `objectives/`), and an `Algorithm` that names
it, in a file that the config points at (`algorithm: ./mine.py:mine`) or in a file of `methods/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from vlrft.advantages import find_estimator
from vlrft.algorithms.algorithm import Algorithm, Schedule
from vlrft.algorithms.methods import load_methods
from vlrft.objectives import Reduction
from vlrft.plugins.find import load_attribute
from vlrft.schema.errors import ConfigError
from vlrft.selection.group_filters import KEEPS
from vlrft.selection.replay import Replay
from vlrft.selection.rollout_filters import SELECTORS

ALGORITHMS: Mapping[str, Algorithm] = load_methods()
_PARTS = ("objective", "regularize", "reference")  # merged key by key
_FAMILIES: Mapping[str, Mapping[str, type[Any]]] = {  # chosen by name, then merged key by key
    "keep": KEEPS,
    "select": SELECTORS,
    "replay": {"fifo": Replay},
}
_REDUCTIONS = get_args(Reduction)
_KEYS = ("advantage", "reduction", *_PARTS, *_FAMILIES)


def find_algorithm(choice: str | Mapping[str, Any]) -> Algorithm:
    """A bundle by name, `package.module:attribute` or `./file.py:attribute`; a mapping overrides parts of it.

    `{"name": "grpo", "regularize": {"kl": 0.0}, "reduction": "token"}`; a number may be a schedule,
    `{"kl": {"from": 0.1, "to": 0.0}}`. Raises ConfigError with all mistakes at once.
    """
    if isinstance(choice, str):
        return _by_name(choice)
    given = dict(choice)
    name = given.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(["algorithm: a mapping needs a `name`, such as {name: gpg, …}"])
    return override(_by_name(name), given)


def override(algorithm: Algorithm, changes: Mapping[str, Any]) -> Algorithm:
    """The bundle with some of its keys set."""
    mistakes = [
        f"algorithm.{k}: unknown key; allowed: {', '.join(_KEYS)}"
        for k in changes
        if k not in _KEYS
    ]
    parts: dict[str, Any] = {}
    schedules = dict(algorithm.schedules)
    for key, value in changes.items():
        try:
            if key in _PARTS:
                where = f"algorithm.{key}"
                fixed, moving = _split(value, where)
                for name, schedule in moving.items():
                    for end in (schedule.at(0.0), schedule.at(1.0)):
                        _merged(getattr(algorithm, key), {**fixed, name: end}, where)
                    fixed[name] = schedule.at(0.0)
                parts[key] = _merged(getattr(algorithm, key), fixed, where)
                schedules |= {f"{key}.{name}": schedule for name, schedule in moving.items()}
            elif key in _FAMILIES:
                parts[key] = _chosen(key, getattr(algorithm, key), value)
            elif key == "reduction" and value not in _REDUCTIONS:
                allowed = ", ".join(_REDUCTIONS)
                mistakes.append(f"algorithm.{key}: {value!r}; allowed: {allowed}")
            elif key in _KEYS:
                parts[key] = value
            if key == "advantage":
                find_estimator(value, "algorithm.advantage")
        except ConfigError as e:
            mistakes += e.mistakes
    if mistakes:
        raise ConfigError(mistakes)
    return dataclasses.replace(algorithm, **parts, schedules=schedules)


def _by_name(name: str) -> Algorithm:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        found = load_attribute(name)
        if not isinstance(found, Algorithm):
            raise ConfigError([f"algorithm: {name} is a {type(found).__name__}, not an Algorithm"])
        return found
    near = get_close_matches(name, ALGORITHMS, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError([f"algorithm: unknown {name!r}; {hint}known: {', '.join(ALGORITHMS)}"])


def _chosen(key: str, present: Any, value: Any) -> Any:
    """A member of a family: None, a name, a mapping with a `name`, or changes to the present member."""
    where, family = f"algorithm.{key}", _FAMILIES[key]
    if value is None and key != "keep":
        return None
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ConfigError([f"{where}: expected a name ({', '.join(family)}) or {{name: …}}"])
    rest = dict(given)
    name = rest.pop("name", None)
    if name is None and present is None:
        raise ConfigError([f"{where}: needs a `name`; known: {', '.join(family)}"])
    if name is not None and name not in family:
        near = get_close_matches(str(name), family, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError([f"{where}.name: unknown {name!r}; {hint}known: {', '.join(family)}"])
    return _merged(present if name is None else family[name](), rest, where)


def _split(value: Any, where: str) -> tuple[dict[str, Any], dict[str, Schedule]]:
    """The settings of a part that stand still, and those that are schedules: mappings with a `from`."""
    if not isinstance(value, Mapping):
        return value, {}
    fixed: dict[str, Any] = {}
    moving: dict[str, Schedule] = {}
    for name, given in value.items():
        if isinstance(given, Mapping) and "from" in given:
            try:
                moving[name] = TypeAdapter(Schedule).validate_python(dict(given))
            except ValidationError as e:
                known = ("from", "to", "shape", "share")
                raise ConfigError(_told(e, f"{where}.{name}", known)) from None
        else:
            fixed[name] = given
    return fixed, moving


def _merged(part: Any, changes: Any, where: str) -> Any:
    known = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    if not isinstance(changes, Mapping):
        raise ConfigError([f"{where}: expected a mapping of {', '.join(known)}"])
    try:
        return TypeAdapter(type(part)).validate_python(known | dict(changes))
    except ValidationError as e:
        raise ConfigError(_told(e, where, tuple(known))) from None


def _told(error: ValidationError, where: str, known: tuple[str, ...]) -> list[str]:
    return [
        f"{where}.{'.'.join(map(str, m['loc']))}: "
        + (
            f"unknown key; allowed: {', '.join(known) or 'none'}"
            if m["loc"] and m["loc"][-1] not in known
            else f"{m['msg']}, got {m['input']!r}"
        )
        for m in error.errors()
    ]
