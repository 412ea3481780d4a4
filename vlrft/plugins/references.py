"""Import references: `package.module:attribute` or `./file.py:attribute`, with ~ for the home folder. No torch."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from vlrft.plugins.names import did_you_mean
from vlrft.schema import Task
from vlrft.schema.errors import PluginError, VlrftError
from vlrft.schema.short_message import short_message

FILE_MODULE = (
    "vlrft_file_"  # the beginning of the module name of a file that was loaded by its path
)
SHOWN_NAMES = 5  # of a file, in a message


def load_attribute(reference: str) -> object:
    """The attribute that `package.module:attribute` or `./file.py:attribute` refers to. Raises PluginError."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute:
        raise PluginError(f"{reference}: expected package.module:attribute or ./file.py:attribute")
    try:
        module = load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (KeyboardInterrupt, VlrftError):
        raise
    except (
        BaseException
    ) as e:  # SystemExit at the top of a file must not end the command without a word
        what = str(e) if isinstance(e, ImportError) else short_message(e)
        raise PluginError(f"{reference}: cannot import {place} ({what}{_line_of(e, place)})") from e
    if not hasattr(module, attribute):
        hint = did_you_mean(attribute, _own_names(module)) or _list_names(module, place)
        raise PluginError(f"{reference}: {place} has no {attribute!r}{hint}")
    value: object = getattr(module, attribute)
    return value


def _own_names(module: ModuleType) -> list[str]:
    """All names of a file but classes that it imports."""
    return [
        name
        for name, value in vars(module).items()
        if not isinstance(value, type) or value.__module__ == module.__name__
    ]


def _names_of(module: ModuleType) -> list[str]:
    """The functions and classes that a file defines, and its tasks."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (getattr(value, "__module__", None) == module.__name__ or isinstance(value, Task))
    ]


def _list_names(module: ModuleType, place: str) -> str:
    """`; it has NAME, ...`, and how to give one."""
    names = _names_of(module)
    if not names:
        return ""
    return f"; it has {', '.join(names[:SHOWN_NAMES])}: give {place}:{names[0]}"


def _line_of(error: BaseException, place: str) -> str:
    """`, line N` of the file that was imported, where the error comes from it."""
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(place)
    ]
    return f", line {lines[-1]}" if lines else ""


def absolute_reference(reference: str) -> str:
    """The reference with an absolute path, for a process that may have another working directory."""
    place, colon, attribute = reference.rpartition(":")
    if not place.endswith(".py"):
        return reference
    return f"{Path(os.path.expanduser(place)).resolve()}{colon}{attribute}"


def load_file(path: Path) -> ModuleType:
    """The file as a module, loaded once, under a name that no installed module has. Raises PluginError."""
    full = Path(os.path.expanduser(path)).resolve()
    if not full.is_file():
        raise PluginError(f"{path}: no such file")
    name = f"{FILE_MODULE}{hashlib.sha256(str(full).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
