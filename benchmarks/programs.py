"""The programs of a benchmark package: `python -m benchmarks.PACKAGE PROGRAM …` runs one and, without one, lists them."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def find_programs(folder: Path) -> Mapping[str, str]:
    """Name -> first line of its docstring, of each module with a function `main`; nothing is imported."""
    programs = {}
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if not path.stem.startswith("_") and "main" in functions:
            programs[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return programs


def make_folder(path: Path) -> None:
    """Makes a program's output folder; exits where it holds anything, as nothing in it may be deleted unasked."""
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        sys.exit(f"{path} is not empty; give a new folder as --out")


def import_program(name: str) -> Any:
    """The module of a program; exits where this Python lacks a package that it imports."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        sys.exit(
            f"{name} needs {e.name}, which {sys.executable} does not have: install the project there (pip install -e .), or "
            "use a Python that has its packages"
        )


def run_program(package: str, folder: Path) -> None:
    """Runs the program that the command line names, with the arguments after it; exits with its exit code."""
    programs = find_programs(folder)
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in programs:
        sys.argv = [f"python -m {package} {name}", *sys.argv[2:]]
        sys.exit(import_program(f"{package}.{name}").main())
    lines = [f"usage: python -m {package} PROGRAM [ARGUMENT …]", ""]
    lines += [f"  {program:11s} {doc}" for program, doc in programs.items()]
    if name in ("", "-h", "--help"):
        print("\n".join(lines))
    else:
        sys.exit("\n".join([*lines, "", f"{name}: no program of {package}"]))
