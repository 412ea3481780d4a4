"""Objectives by name. Each file of this folder that has OBJECTIVES, name -> class, adds to the table."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from vlrft.config.choice import change, configure, find_or_load
from vlrft.objectives.objective import Objective
from vlrft.schema.errors import ConfigError

FOLDER = Path(__file__).parent

Maker = Callable[[Mapping[str, Any], str], Objective]
"""Settings and the key that mistakes are reported under -> the objective."""


def load_objectives() -> Mapping[str, type[Any]]:
    """Every objective of this folder by name, in order of file. Raises ValueError for a name that two files use."""
    table: dict[str, type[Any]] = {}
    for info in sorted(pkgutil.iter_modules([str(FOLDER)]), key=lambda m: m.name):
        if info.name == Path(__file__).stem:
            continue
        module = importlib.import_module(f"vlrft.objectives.{info.name}")
        for name, kind in getattr(module, "OBJECTIVES", {}).items():
            if name in table:
                raise ValueError(f"{info.name}.py: another file has {name!r} already")
            table[name] = kind
    return table


OBJECTIVES = load_objectives()


def objective_maker(value: Any, present: Objective, at: str) -> tuple[bool, Maker, Any]:
    """Whether `value` names an objective, a function that makes it from settings, and the settings in `value`.

    `quadratic` and `{name: quadratic, epsilon: 0.1}` name one, by a name of the table or by
    `package.module:attribute` or `./file.py:attribute`; its other settings are its own defaults. A mapping without
    `name` changes settings of the `present` one. Raises ConfigError under the key `at` for an unknown name.
    """
    settings: Any = {"name": value} if isinstance(value, str) else value
    if not isinstance(settings, Mapping) or "name" not in settings:
        return False, lambda changes, key: change(present, changes, key), settings
    name = str(settings["name"])
    chosen = find_or_load(name, OBJECTIVES, at=f"{at}.name", kind="objective")

    def make(changes: Mapping[str, Any], key: str) -> Objective:
        made: Any = chosen
        if isinstance(chosen, type) and dataclasses.is_dataclass(chosen):
            made = configure(cast("type[Any]", chosen), changes, key)
        elif changes and dataclasses.is_dataclass(chosen):
            made = change(chosen, changes, key)
        elif changes:
            raise ConfigError([f"{key}.{k}: unknown key; {name} has no settings" for k in changes])
        if isinstance(made, type) or not isinstance(made, Objective):
            raise ConfigError(
                [f"{at}.name: {name} is not an objective: a dataclass with `needs` and `__call__`"]
            )
        return made

    return True, make, {key: item for key, item in settings.items() if key != "name"}
