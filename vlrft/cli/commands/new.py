"""vlrft new reward, vlrft new task: a small complete file to change."""

from __future__ import annotations

import argparse
import keyword
import sys
from importlib.resources import files
from pathlib import Path

from vlrft.schema.errors import ConfigError

NEXT = {
    "reward": "vlrft check reward {path} --task digits",
    "task": "vlrft check {path}",
}


def run(args: argparse.Namespace) -> None:
    name, kind = checked(args.name), args.kind
    path: Path = args.out / f"{name}.py"
    if path.exists() and not args.overwrite:
        raise ConfigError([f"{path} exists; use --overwrite, another name or another --out"])
    template = (files("vlrft.cli") / "templates" / f"{kind}.py").read_text(encoding="utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.replace(f"my_{kind}", name), encoding="utf-8")
    except OSError as e:
        raise ConfigError([f"{path}: cannot be written ({e.strerror})"]) from None
    shown = str(path) if path.is_absolute() else f"./{path}"
    print(f"wrote {shown}; next: {NEXT[kind].format(path=shown)}")


def checked(name: str) -> str:
    """The name of a file and of what stands in it. Raises ConfigError."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        near = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.removesuffix(".py"))
        hint = f" such as {near}" if near.isidentifier() and not keyword.iskeyword(near) else ""
        raise ConfigError([f"{name!r} is no name for a Python file and function; use one{hint}"])
    if name in sys.stdlib_module_names:
        raise ConfigError([f"{name}.py would hide Python's own {name}; use another name"])
    return name
