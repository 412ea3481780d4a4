"""Finding an estimator: by name, in a file, or as a list of steps in a config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from vlrft.advantages.estimator import Estimator, EstimatorStep
from vlrft.advantages.estimators import load_estimators
from vlrft.config.choice import configure, find_or_load
from vlrft.schema.errors import ConfigError

STEPS, ESTIMATORS = load_estimators()

Choice = str | Sequence[str | Mapping[str, Any]]
"""`centred`, `./mine.py:mine`, or steps: `[{step: combine}, {step: centre, key: sample}, {step: scale}]`."""


def find_estimator(choice: Choice, at: str = "advantage") -> Estimator:
    """The estimator of that name, at `package.module:attribute` or at `./file.py:attribute`, or a pipeline of the listed
    steps. Raises ConfigError with all mistakes, each under the key `at`."""
    if isinstance(choice, str):
        return _estimator_of(choice, at)
    if not isinstance(choice, Sequence) or not choice:
        raise ConfigError(
            [f"{at}: expected a name or a list of steps such as {{step: centre}}, got {choice!r}"]
        )
    steps: list[EstimatorStep] = []
    mistakes: list[str] = []
    for k, item in enumerate(choice):
        try:
            steps.append(_step(item, f"{at}.{k}"))
        except ConfigError as e:
            mistakes += e.mistakes
    if mistakes:
        raise ConfigError(mistakes)
    name = " + ".join(_label(item) for item in choice)
    return Estimator(name=name, doc="Steps listed in the config.", steps=tuple(steps))


def _estimator_of(name: str, at: str) -> Estimator:
    estimator = find_or_load(name, ESTIMATORS, at=at, kind="estimator", most=len(ESTIMATORS))
    if not isinstance(estimator, Estimator):
        raise ConfigError([f"{at}: {name} is a {type(estimator).__name__}, not an Estimator"])
    return estimator


def _step(item: Any, at: str) -> EstimatorStep:
    settings = {"step": item} if isinstance(item, str) else item
    if not isinstance(settings, Mapping) or not isinstance(settings.get("step"), str):
        raise ConfigError([f"{at}: expected {{step: NAME, …}}; known steps: {', '.join(STEPS)}"])
    name = settings["step"]
    rest = {key: value for key, value in settings.items() if key != "step"}
    step = find_or_load(name, STEPS, at=f"{at}.step", kind="step", most=len(STEPS))
    if isinstance(step, type) and dataclasses.is_dataclass(step):
        return cast(EstimatorStep, configure(step, rest, at))
    if isinstance(step, type) or not callable(step):
        raise ConfigError(
            [
                f"{at}.step: {name} is neither a function of an EstimatorInput nor a vlrft.config.strict class"
            ]
        )
    if rest:
        raise ConfigError([f"{at}.{key}: unknown key; {name} is a function" for key in rest])
    return cast(EstimatorStep, step)


def _label(item: str | Mapping[str, Any]) -> str:
    return (item if isinstance(item, str) else str(item["step"])).rpartition(":")[2]
