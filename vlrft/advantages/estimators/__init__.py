"""One file a family of estimators. Each holds STEPS, name -> class, and ESTIMATORS, a tuple; a file put here is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from vlrft.advantages.estimator import Estimator, Step

StepMaker = Callable[..., Step]


def load_families() -> tuple[Mapping[str, StepMaker], Mapping[str, Estimator]]:
    """Every step and every estimator of this folder by name. Raises ValueError for a name that stands twice."""
    steps: dict[str, StepMaker] = {}
    named: dict[str, Estimator] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        _add(steps, module.STEPS, info.name)
        _add(named, {e.name: e for e in module.ESTIMATORS}, info.name)
    return steps, named


def _add(table: dict[str, Any], found: Mapping[str, Any], where: str) -> None:
    for name, value in found.items():
        if name in table:
            raise ValueError(f"{where}.py: {name!r} exists already")
        table[name] = value
