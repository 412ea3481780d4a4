"""Algorithms by name, and overrides of their parts.

An algorithm of your own: a frozen dataclass with `needs` and `__call__` (see `objectives/`), and an `Algorithm` with it as
its objective, in a file that the config points at (`algorithm: ./mine.py:mine`) or in a new file of `methods/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

from vlrft.advantages import find_estimator
from vlrft.algorithms.algorithm import Algorithm, Schedule, set_in_steps
from vlrft.algorithms.methods import load_algorithms
from vlrft.config.choice import change, choose, configure, find_or_load
from vlrft.config.foreign_names import key_of_foreign
from vlrft.objectives import Reduction
from vlrft.objectives.correction import Correction
from vlrft.objectives.find import objective_maker
from vlrft.objectives.regularizer import Regularizer
from vlrft.plugins.names import unknown_key, unknown_name
from vlrft.schema.errors import ConfigError
from vlrft.selection.group_filters import KEEPS, KeepAll
from vlrft.selection.injection import InjectGold
from vlrft.selection.replay import Replay
from vlrft.selection.rollout_filters import SELECTORS, Selectors, chain_of

ALGORITHMS: Mapping[str, Algorithm] = load_algorithms()
_PARTS = ("objective", "regularize", "reference")  # merged key by key
_CHOICES: Mapping[str, Mapping[str, type[Any]]] = {  # chosen by name, then merged key by key
    "keep": KEEPS,
    "select": SELECTORS,
    "inject": {"gold": InjectGold},
    "replay": {"fifo": Replay},
}
_REDUCTIONS = get_args(Reduction)
# idle where gold answers are learned
_FOR_SAMPLED = ("keep", "select", "replay", "correction")
_KEYS = ("advantage", "reduction", *_PARTS, "correction", *_CHOICES)


def find_algorithm(choice: str | Mapping[str, Any]) -> Algorithm:
    """An algorithm by name, `package.module:attribute` or `./file.py:attribute`; a mapping overrides parts of it.

    `{"name": "grpo", "regularize": {"kl": 0.0}, "reduction": "token"}`; a number may be a schedule,
    `{"kl": {"from": 0.1, "to": 0.0}}`. Raises ConfigError with all mistakes at once.
    """
    if isinstance(choice, str):
        return _by_name(choice)
    changes = dict(choice)
    name = changes.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(
            [
                "algorithm: a mapping needs a `name`, such as {name: gpg, …}, with a space after each colon"
            ]
        )
    return override(_by_name(name), changes)


def override(algorithm: Algorithm, changes: Mapping[str, Any]) -> Algorithm:
    """A copy of the algorithm with some of its keys changed. Raises ConfigError with all mistakes."""
    mistakes = [f"algorithm.{k}: {_unknown_key(k)}" for k in changes if k not in _KEYS]
    parts: dict[str, Any] = {}
    schedules = dict(algorithm.schedules)
    for key, value in changes.items():
        try:
            if key in _PARTS:
                parts[key], schedules = _change_part(key, value, algorithm, schedules)
            elif key == "select" and isinstance(value, Sequence) and not isinstance(value, str):
                parts[key] = _selectors(value)
            elif key in _CHOICES:
                parts[key] = None
                if value is not None or key == "keep":
                    present = getattr(algorithm, key)
                    parts[key] = choose(
                        value, _CHOICES[key], at=f"algorithm.{key}", default=present
                    )
            elif key == "correction":
                present = algorithm.correction or Correction()
                parts[key] = (
                    None if value is None else change(present, value, "algorithm.correction")
                )
            elif key == "reduction" and value not in _REDUCTIONS:
                mistakes.append(f"algorithm.{key}: {unknown_name('name', value, _REDUCTIONS)}")
            elif key == "advantage":
                parts[key], schedules = _change_advantage(value, schedules)
            elif key in _KEYS:
                parts[key] = value
        except ConfigError as e:
            mistakes += e.mistakes
    mistakes += _idle_parts(algorithm, parts)
    if mistakes:
        raise ConfigError(mistakes)
    made = dataclasses.replace(algorithm, **parts, schedules=schedules)
    _refuse_idle_estimator(made, changes.get("regularize"))
    return made


def _idle_parts(algorithm: Algorithm, parts: Mapping[str, Any]) -> list[str]:
    """A mistake for each part that an algorithm of gold answers does not use."""
    if algorithm.answers == "sampled":
        return []
    return [
        f"algorithm.{key}: has no effect on {algorithm.name}, which trains on gold answers and samples nothing; leave it out"
        for key in _FOR_SAMPLED
        if parts.get(key) not in (None, KeepAll())
    ]


def _refuse_idle_estimator(algorithm: Algorithm, changes: Any) -> None:
    """Raises ConfigError for an estimator of a KL penalty that the algorithm has at no point of its schedules."""
    name, penalty = "kl_estimator", algorithm.regularize
    given = isinstance(changes, Mapping) and name in changes
    if not given or penalty.kl_estimator == Regularizer.kl_estimator:
        return
    if not any(algorithm.at(done).regularize.kl > 0 for done in (0.0, 1.0)):
        raise ConfigError(
            [
                f"algorithm.regularize.{name}: {penalty.kl_estimator} has no effect, as {algorithm.name} has no KL penalty "
                "with kl: 0; give a kl above 0, or leave it out"
            ]
        )


def _change_part(
    key: str, value: Any, algorithm: Algorithm, schedules: Mapping[str, Schedule]
) -> tuple[Any, dict[str, Schedule]]:
    """The part with these settings, and the schedules with its own; a constant drops the schedule of its setting, another
    objective those of the present one."""
    where, present = f"algorithm.{key}", getattr(algorithm, key)
    make: Any = partial(change, present)
    kept = dict(schedules)
    if key == "objective":
        named, make, value = objective_maker(value, present, where)
        if named:
            kept = {path: s for path, s in kept.items() if not path.startswith("objective.")}
    constants, scheduled = _split(value, where)
    if key == "reference" and scheduled:
        raise ConfigError(
            [
                f"{where}.{name}: a schedule has no effect on the reference; give a number"
                for name in scheduled
            ]
        )
    for name, schedule in scheduled.items():
        for point in _points(schedule):
            make({**constants, name: point}, where)
        constants[name] = schedule.at(0.0)
    made = make(constants, where)
    kept = {path: s for path, s in kept.items() if path not in {f"{key}.{n}" for n in constants}}
    return made, kept | {f"{key}.{name}": schedule for name, schedule in scheduled.items()}


def _change_advantage(
    value: Any, schedules: Mapping[str, Schedule]
) -> tuple[Any, dict[str, Schedule]]:
    """The estimator with the first number of each schedule, and the schedules with those of its steps in the place of
    those of the present one's. Both ends and the middle of each schedule are checked."""
    where = "algorithm.advantage"
    kept = {path: s for path, s in schedules.items() if not path.startswith("advantage.")}
    if not isinstance(value, Sequence) or isinstance(value, str):
        find_estimator(value, where)
        return value, kept
    steps, found = list(value), dict[str, Schedule]()
    for k, step in enumerate(value):
        constants, scheduled = _split(step, f"{where}.{k}")
        for key, setting in constants.items() if isinstance(constants, Mapping) else ():
            inner, more = _split(setting, f"{where}.{k}.{key}")
            scheduled |= {f"{key}.{name}": schedule for name, schedule in more.items()}
            constants = {**constants, key: inner}
        steps[k] = constants
        found |= {f"{k}.{path}": schedule for path, schedule in scheduled.items()}
    for k in (2, 1, 0):
        for path, schedule in found.items():
            steps = set_in_steps(steps, path, _points(schedule)[k])
        find_estimator(steps, where)
    return steps, kept | {f"advantage.{path}": schedule for path, schedule in found.items()}


def _points(schedule: Schedule) -> tuple[float, float, float]:
    """Its first, middle and last number, which must be allowed: the middle one is neither true nor false."""
    return schedule.at(0.0), schedule.at(schedule.share / 2), schedule.at(1.0)


def _selectors(items: Sequence[Any]) -> Selectors:
    """The rules of a list, in their order. Raises ConfigError with every mistake."""
    chosen: list[Any] = []
    mistakes: list[str] = []
    for k, item in enumerate(items):
        try:
            chosen.append(choose(item, SELECTORS, at=f"algorithm.select.{k}"))
        except ConfigError as e:
            mistakes += e.mistakes
    if mistakes:
        raise ConfigError(mistakes)
    return chain_of(tuple(chosen)) or None


def _unknown_key(key: str) -> str:
    """The wording for an unknown key, with our key where another toolkit calls it so."""
    ours = key_of_foreign(f"algorithm.{key}")
    return f"unknown key; did you mean {ours}?" if ours else unknown_key(key, _KEYS)


def _by_name(name: str) -> Algorithm:
    algorithm = find_or_load(name, ALGORITHMS, at="algorithm", kind="algorithm")
    if not isinstance(algorithm, Algorithm):
        raise ConfigError([f"algorithm: {name} is a {type(algorithm).__name__}, not an Algorithm"])
    return algorithm


def _split(value: Any, where: str) -> tuple[Any, dict[str, Schedule]]:
    """The constant settings of a part, and its schedules: the mappings with a `from`."""
    if not isinstance(value, Mapping):
        return value, {}
    constants: dict[str, Any] = {}
    schedules: dict[str, Schedule] = {}
    for name, setting in value.items():
        if isinstance(setting, Mapping) and "from" in setting:
            schedules[name] = configure(Schedule, setting, f"{where}.{name}")
        else:
            constants[name] = setting
    return constants, schedules
