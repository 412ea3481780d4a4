"""The parts of this pack that are files of a folder: a new one is a new file, named nowhere else."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any


@cache
def find_objects(package: str, attribute: str) -> tuple[Any, ...]:
    """The objects of this name in the public modules of a package, in the order of the modules' names; a module whose
    attribute is a tuple gives each of its objects."""
    folder = importlib.import_module(package)
    found: list[Any] = []
    for module in pkgutil.iter_modules(folder.__path__):
        if not module.name.startswith("_"):
            entry = getattr(importlib.import_module(f"{package}.{module.name}"), attribute, ())
            found += entry if isinstance(entry, tuple) else [entry]
    return tuple(found)
