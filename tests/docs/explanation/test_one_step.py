"""docs/explanation/one_step.md names at most 20 files, which exist and define the names after them; its example holds."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from tests.docs.pages import ROOT, files, read_page

PAGE = read_page("docs/explanation/one_step.md")
LINK = re.compile(r"^\[([\w/]+\.py)\]\(../../([\w/]+\.py)\) · (.*?)(?=\n\n)", re.S | re.M)
FILES = {name: text for name, _, text in LINK.findall(PAGE)}
MAX_FILES = 20


def defined(path: str) -> set[str]:
    """Names of the classes, functions and methods of a file, methods also with their class."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [m.name for m in node.body if isinstance(m, ast.FunctionDef)]
            names |= {f"{node.name}.{method}" for method in methods}
    return names


def test_at_most_twenty_files_are_linked_each_once() -> None:
    links = re.findall(r"\]\(../../(\S+?)\)", PAGE)
    assert sorted(links) == sorted(FILES)
    assert 0 < len(links) <= MAX_FILES
    assert all(name == target for name, target, _ in LINK.findall(PAGE))


@pytest.mark.parametrize("path", FILES)
def test_the_name_after_each_link_is_defined_in_the_file(path: str) -> None:
    first = re.match(r"`([\w.]+)`", FILES[path])
    assert first is not None
    assert first[1] in defined(path) or f'name="{first[1]}"' in (ROOT / path).read_text()


def test_every_other_name_of_the_page_is_defined_in_one_of_its_files() -> None:
    names = set(re.findall(r"`([A-Za-z]\w+(?:\.\w+)?)`", PAGE))
    defined_names = set().union(
        *(defined(path) for path in FILES), defined("vlrft/schema/rollout.py")
    )
    defined_names |= defined("vlrft/selection/prompt_sampler.py")
    words = {"gpg", "centred", "group", "needs"}  # names of settings
    assert {n for n in names if n not in defined_names and n not in words} == set()


def test_the_example_s_numbers_are_right() -> None:
    (name,) = files(PAGE)
    variables: dict[str, Any] = {}
    exec(compile(files(PAGE)[name], name, "exec"), variables)
    assert f"loss    (2 − 6) / (2 groups · 8 tokens) = −{-variables['result'].loss:g}" in PAGE
