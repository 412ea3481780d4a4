"""vlrft new reward, vlrft new task: a small complete file to change."""

from __future__ import annotations

import argparse
import keyword
import shlex
import sys
from importlib.resources import files
from pathlib import Path

from vlrft.cli.outputs import claim_file
from vlrft.data.atomic import write_atomically
from vlrft.schema.errors import ConfigError

NEXT = {
    "reward": "vlrft check reward {path} --task digits",
    "task": "vlrft check {path}",
}


def run(args: argparse.Namespace) -> None:
    name, kind = args.name, args.kind
    refuse_bad_name(name)
    path: Path = args.out / f"{name}.py"
    claim_file(path, "name or --out", overwrite=args.overwrite)
    template = (files("vlrft.cli") / "templates" / f"{kind}.py").read_text(encoding="utf-8")
    try:
        write_atomically(path, template.replace(f"my_{kind}", name).encode())
    except OSError as e:
        raise ConfigError([f"{path}: cannot be written ({e.strerror})"]) from None
    shown = str(path) if path.is_absolute() else f"./{path}"
    print(f"wrote {shown}; next: {NEXT[kind].format(path=shlex.quote(shown))}")


def refuse_bad_name(name: str) -> None:
    """Raises ConfigError for a name that cannot be both a file's and a function's, or that hides a standard module."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        fixed = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.removesuffix(".py"))
        hint = f" such as {fixed}" if fixed.isidentifier() and not keyword.iskeyword(fixed) else ""
        raise ConfigError([f"{name!r} cannot name a Python file and function; use another{hint}"])
    if name in sys.stdlib_module_names:
        raise ConfigError([f"{name}.py would hide Python's module {name}; use another name"])
