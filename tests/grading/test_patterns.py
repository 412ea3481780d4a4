"""No regular expression over a policy's text takes super-linear time, unless it only sees short texts."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.grading.pattern_growth import EXPONENTIAL, degree
from vlrft.grading import MAX_ANSWER

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "rewards",
    "tasks",
    "vlrft/grading",
    "vlrft/scoring",
    "vlrft/envs",
    "vlrft/reporting/html",
)
ANCHORED = {"match", "fullmatch"}
METHODS = ANCHORED | {"search", "sub", "subn", "split", "findall", "finditer"}

# Patterns over other texts than a policy's: game files, names of files, a template of the config.
OTHER_TEXTS = {
    "vlrft.tasks.alfworld.logic",
    "vlrft.tasks.alfworld.renaming",
    "vlrft.tasks.finegrained.official",
    "vlrft.tasks.table.templates",
}

# Modules whose patterns see at most so many characters, where a quadratic pattern takes some ten milliseconds.
SHORT_TEXTS = {"vlrft.grading.math": MAX_ANSWER}
MAX_QUADRATIC = 4000  # characters


class Use(NamedTuple):
    """A regular expression of a module, and whether it is searched for."""

    module: str
    place: str
    pattern: re.Pattern[str]
    searches: bool


@cache
def uses() -> tuple[Use, ...]:
    files = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    called: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=method) if method in METHODS:
                    called.setdefault(_owner(path, name), set()).add(method)
    return tuple(use for path, tree in trees.items() for use in _uses_in(path, tree, called))


def _owner(path: Path, name: str) -> str:
    """A private name is its file's own."""
    return f"{path}:{name}" if name.startswith("_") else name


def _uses_in(path: Path, tree: ast.Module, called: dict[str, set[str]]) -> Iterator[Use]:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name if name.startswith("vlrft.") else f"vlrft.{name}")
    for attribute, value in vars(module).items():
        methods = called.get(_owner(path, attribute), METHODS)
        for pattern in _patterns(value):
            yield Use(module.__name__, attribute, pattern, not methods <= ANCHORED)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if (
                    method in (METHODS | {"compile"})
                ):
                    pattern = _inline_pattern(module, node)
                    yield Use(module.__name__, function.name, pattern, method not in ANCHORED)


def _patterns(value: Any) -> Iterator[re.Pattern[str]]:
    """The compiled patterns in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _patterns(item)


def _inline_pattern(module: ModuleType, call: ast.Call) -> re.Pattern[str]:
    """The regular expression of a call in a function, whose arguments must be constants of the module."""
    is_compile = isinstance(call.func, ast.Attribute) and call.func.attr == "compile"
    flags = call.args[1:] if is_compile else [k.value for k in call.keywords if k.arg == "flags"]
    try:
        arguments: Any = [
            eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module)))
            for node in (call.args[0], *flags)
        ]
    except NameError as e:
        raise AssertionError(
            f"{module.__name__}:{call.lineno}: compile the regular expression at the module's top ({e})"
        ) from e
    pattern: re.Pattern[str] = re.compile(*arguments)
    return pattern


def test_the_patterns_of_all_graders_are_found() -> None:
    modules = {use.module for use in uses()}
    assert {"vlrft.rewards.format", "vlrft.rewards._prm800k", "vlrft.grading.reading"} <= modules
    assert any(name.startswith("vlrft.grading.math.") for name in modules)
    assert {use.searches for use in uses()} == {True, False}


def test_no_pattern_takes_super_linear_time_on_long_texts() -> None:
    slow = []
    for use in (use for use in uses() if use.module not in OTHER_TEXTS):
        limit = next((n for name, n in SHORT_TEXTS.items() if use.module.startswith(name)), None)
        power = degree(use.pattern, searches=use.searches)
        if power > (1 if limit is None else 2):
            slow.append(f"{use.module}:{use.place}: n^{power}: {use.pattern.pattern}")
    assert not slow, "\n".join(slow)
    assert max(SHORT_TEXTS.values()) <= MAX_QUADRATIC


@pytest.mark.parametrize(
    ("pattern", "searches", "power"),
    [
        (r"\s*<", False, 1),
        (r"\s*<", True, 2),  # white space without a `<` is read again from each of its characters
        (r"\s+$", True, 2),
        (r"^\s+x", True, 1),
        (r"<a>(.*?)</a>", True, 2),
        (r"<a>\s*([0-9]{1,18})\s*</a>", True, 1),
        (r"\w+", True, 1),
        (r"x(?=.*y)", True, 2),
        (r"(['\"])x*\1", True, 1),
        (r".*,.*;", False, 2),
        (r"a*a*a*b", False, 3),
        (r"(?:a|b)*c", False, 1),
        (r"(a|a)*b", False, EXPONENTIAL),
        (r"(a*)*b", False, EXPONENTIAL),
        (r"(\w+\s?)*$", False, EXPONENTIAL),
    ],
)
def test_the_growth_of_a_pattern(pattern: str, searches: bool, power: int) -> None:
    assert degree(re.compile(pattern), searches=searches) == power
