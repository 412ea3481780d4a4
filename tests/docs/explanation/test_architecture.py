"""docs/explanation/architecture.md shows the layers as they are enforced, and every folder."""

from __future__ import annotations

import importlib.util
import re

from tests.docs.pages import ROOT, read_page
from tests.test_layers import LAYERS

PAGE = read_page("docs/explanation/architecture.md")
PICTURE = read_page("docs/explanation/layers.svg")


def test_the_picture_is_that_of_the_enforced_layers() -> None:
    spec = importlib.util.spec_from_file_location("layers", ROOT / "docs" / "layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.picture() == PICTURE, "run `make docs`"
    names = re.findall(r">([a-z]+)</text><|>([a-z]+)</text>", PICTURE)
    boxes = [a or b for a, b in names if (a or b) != "imports"]
    assert boxes == [name for layer in LAYERS for name in sorted(layer)]


def test_the_table_has_a_row_for_every_folder() -> None:
    table = PAGE.partition("| folder | content |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert sorted(rows) == sorted(name for layer in LAYERS for name in layer)
