"""One file a family of methods. Each holds METHODS, a tuple of Algorithm; a file put here is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from vlrft.algorithms.algorithm import Algorithm


def load_algorithms() -> Mapping[str, Algorithm]:
    """Every method of this folder by name, in order of file. Raises ValueError for a name that stands twice."""
    found: dict[str, Algorithm] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        methods: tuple[Algorithm, ...] = importlib.import_module(
            f"{__name__}.{module.name}"
        ).ALGORITHMS
        for method in methods:
            if method.name in found:
                raise ValueError(f"{module.name}.py: a method {method.name!r} exists already")
            found[method.name] = method
    return found
