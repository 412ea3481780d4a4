"""The shipped algorithms, one file per family. Each file has ALGORITHMS, a tuple of Algorithm; new files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from vlrft.algorithms.algorithm import Algorithm


def load_algorithms() -> Mapping[str, Algorithm]:
    """Every algorithm of this folder by name, in order of file. Raises ValueError for a name that two files use."""
    by_name: dict[str, Algorithm] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        algorithms: tuple[Algorithm, ...] = module.ALGORITHMS
        for algorithm in algorithms:
            if algorithm.name in by_name:
                raise ValueError(f"{info.name}.py: another file has {algorithm.name!r} already")
            by_name[algorithm.name] = algorithm
    return by_name
