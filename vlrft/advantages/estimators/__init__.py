"""Estimators, one file per family. Each file has STEPS, name -> class, and ESTIMATORS, a tuple; new files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from vlrft.advantages.estimator import Estimator, EstimatorStep

StepMaker = Callable[..., EstimatorStep]


def load_estimators() -> tuple[Mapping[str, StepMaker], Mapping[str, Estimator]]:
    """Every step and every estimator of this folder, by name. Raises ValueError for a name that two files use."""
    steps: dict[str, StepMaker] = {}
    named: dict[str, Estimator] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        _add(steps, module.STEPS, info.name)
        _add(named, {e.name: e for e in module.ESTIMATORS}, info.name)
    return steps, named


def _add(table: dict[str, Any], entries: Mapping[str, Any], file: str) -> None:
    for name, value in entries.items():
        if name in table:
            raise ValueError(f"{file}.py: another file has {name!r} already")
        table[name] = value
