"""An estimator by name, from a file, or put together from steps in a config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from vlrft.advantages.estimator import Estimator, Step
from vlrft.advantages.estimators import load_families
from vlrft.config.errors import explain
from vlrft.plugins.find import load_attribute
from vlrft.schema.errors import ConfigError, PluginError

STEPS, ESTIMATORS = load_families()

Choice = str | Sequence[str | Mapping[str, Any]]
"""`centred`, `./mine.py:mine`, or steps: `[{step: combine}, {step: centre, key: sample}, {step: scale}]`."""


def find_estimator(choice: Choice, at: str = "advantage") -> Estimator:
    """The estimator of that name, the one that `package.module:attribute` or `./file.py:attribute` holds, or a pipeline
    of the given steps. Raises ConfigError with all mistakes, each under the key `at`."""
    if isinstance(choice, str):
        return _named(choice, at)
    if not isinstance(choice, Sequence) or not choice:
        raise ConfigError(
            [f"{at}: expected a name or a list of steps such as {{step: centre}}, got {choice!r}"]
        )
    steps: list[Step] = []
    mistakes: list[str] = []
    for k, item in enumerate(choice):
        try:
            steps.append(_step(item, f"{at}.{k}"))
        except ConfigError as e:
            mistakes += e.mistakes
    if mistakes:
        raise ConfigError(mistakes)
    name = " + ".join(_label(item) for item in choice)
    return Estimator(name=name, doc="Put together in the config.", steps=tuple(steps))


def _named(name: str, at: str) -> Estimator:
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if ":" not in name:
        raise ConfigError([_unknown("estimator", name, ESTIMATORS, at)])
    found = _load(name, at)
    if not isinstance(found, Estimator):
        raise ConfigError([f"{at}: {name} is a {type(found).__name__}, not an Estimator"])
    return found


def _step(item: Any, at: str) -> Step:
    settings = {"step": item} if isinstance(item, str) else item
    if not isinstance(settings, Mapping) or not isinstance(settings.get("step"), str):
        raise ConfigError([f"{at}: expected {{step: NAME, …}}; known steps: {', '.join(STEPS)}"])
    name = settings["step"]
    rest = {key: value for key, value in settings.items() if key != "step"}
    if name not in STEPS and ":" not in name:
        raise ConfigError([_unknown("step", name, STEPS, f"{at}.step")])
    found = STEPS[name] if name in STEPS else _load(name, f"{at}.step")
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        try:
            found = TypeAdapter[Any](found).validate_python(rest)
        except ValidationError as e:
            raise ConfigError(explain(e, found, at)) from None
        rest = {}
    if isinstance(found, type) or not callable(found):
        raise ConfigError(
            [f"{at}.step: {name} is neither a function (plays) nor a vlrft.config.strict class"]
        )
    if rest:
        raise ConfigError([f"{at}.{key}: unknown key; {name} is a function" for key in rest])
    return cast(Step, found)


def _load(name: str, at: str) -> object:
    try:
        return load_attribute(name)
    except PluginError as e:
        raise ConfigError([f"{at}: {e}"]) from None


def _unknown(kind: str, name: str, known: Mapping[str, object], at: str) -> str:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{at}: unknown {kind} {name!r}; {hint}known: {', '.join(known)}"


def _label(item: str | Mapping[str, Any]) -> str:
    return (item if isinstance(item, str) else str(item["step"])).rpartition(":")[2]
