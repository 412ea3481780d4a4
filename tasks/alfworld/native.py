"""Imports of alfworld, textworld and their Fast-Downward library, without side effects.

Importing alfworld creates a folder in the home directory and sets ALFWORLD_DATA; here it does neither. The library keeps
the state of a game in global variables, so TextWorld loads a copy of its 34 MB for each game. Only its first megabyte is
ever loaded: the rest are debug symbols, which are left out of the copies here. A copy cannot be unloaded (the next load
would crash), so a finished game leaves its copy to the next one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from vlrft.schema.errors import PluginError

ENGINE = ("alfworld", "textworld", "fast-downward-textworld")
LOADED = 1  # PT_LOAD: a segment of a library that is loaded into memory
_FREE: list[Any] = []  # copies that no game uses; as many as were played at once


def require_package() -> Path:
    """The folder of the installed package alfworld, which is not imported. Raises PluginError, naming the extra."""
    package = importlib.util.find_spec("alfworld")
    if package is None or package.origin is None:
        raise PluginError("task alfworld needs the real engine: pip install 'vlrft[alfworld]'")
    return Path(package.origin).parent


@cache
def require_engine() -> None:
    """Makes alfworld and textworld importable without their side effects. Raises PluginError, naming the extra."""
    folder = require_package()
    variable = os.environ.get("ALFWORLD_DATA")
    os.environ["ALFWORLD_DATA"] = variable or str(folder)
    try:
        import alfworld  # noqa: F401  creates the folder of the variable, which exists already
        import textworld.envs.pddl  # noqa: F401
    except ImportError as e:
        raise PluginError(f"task alfworld: {e}: pip install 'vlrft[alfworld]'") from None
    finally:
        if variable is None:
            del os.environ["ALFWORLD_DATA"]


def versions() -> dict[str, str]:
    """The versions of the packages that games depend on."""
    return {name: importlib.metadata.version(name) for name in ENGINE}


def load_library() -> Any:
    """A copy of the Fast-Downward library for the use of one game, until `release_library`."""
    require_engine()
    if _FREE:
        return _FREE.pop()
    from fast_downward import interface

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.so"
        small.write_bytes(_loaded_part(interface.DOWNWARD_LIB_PATH))
        whole = interface.DOWNWARD_LIB_PATH
        interface.DOWNWARD_LIB_PATH = str(small)
        try:
            return interface.load_lib()
        finally:
            interface.DOWNWARD_LIB_PATH = whole


def release_library(library: Any) -> None:
    """Clears a copy for the next game."""
    library.cleanup()
    _FREE.append(library)


@cache
def _loaded_part(path: str) -> bytes:
    """The bytes of a library up to the end of its last loaded segment; all of them if it is no 64-bit ELF file."""
    data = Path(path).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return data
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    end = table + size * count
    for k in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, table + k * size)
        if kind == LOADED:
            end = max(end, offset + length)
    return data[:end]


@contextmanager
def preserve_arguments() -> Iterator[None]:
    """Restores sys.argv, into which the translator of PDDL writes its own command line."""
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
