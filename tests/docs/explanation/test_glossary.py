"""Every word of docs/explanation/glossary.md names a class or function that exists."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.docs.pages import read_page

PAGE = read_page("docs/explanation/glossary.md")
ROWS = re.findall(r"^\| ([\w, -]+) \| .* \| `([\w.]+)` \|$", PAGE, re.M)


def test_every_row_of_the_tables_is_read_here() -> None:
    words = [
        line
        for line in PAGE.splitlines()
        if line.startswith("| ") and "| in the code |" not in line
    ]
    assert len(ROWS) == len([line for line in words if not line.startswith("| ---")])
    assert len({word for word, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("word", "place"), ROWS)
def test_the_class_of_each_word_exists(word: str, place: str) -> None:
    module, _, name = place.rpartition(".")
    assert hasattr(importlib.import_module(module), name), word
