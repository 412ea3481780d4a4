"""docs/reference/packs.md lists every pack, and the configs that it names exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, read_page
from vlrft.config.load import load_config

PAGE = read_page("docs/reference/packs.md")


def test_every_pack_has_a_row() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M))
    assert rows == {p.parent.name for p in (ROOT / "tasks").glob("*/__init__.py")}


def test_the_alfworld_configs_that_the_page_names_exist() -> None:
    (names,) = re.findall(r"also alfworld_(\w+), (.*)$", PAGE, re.M)
    for name in ("gigpo", names[0], *re.findall(r"_(\w+)", names[1])):
        assert load_config(f"alfworld_{name}").task.name == "alfworld"
