"""docs/reference/algorithms.md is what docs/algorithms.py makes of the docstrings."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from vlrft.algorithms import ALGORITHMS

DOCS = Path(__file__).parents[3] / "docs"


def generate() -> str:
    spec = importlib.util.spec_from_file_location("algorithms_page", DOCS / "algorithms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page: str = module.page()
    return page


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "reference" / "algorithms.md").read_text(encoding="utf-8") == generate(), (
        "run `make docs`"
    )


def test_every_algorithm_has_an_equation_and_no_link_is_dead() -> None:
    page = generate()
    anchors = {h.lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", page, re.M)}
    for name, algorithm in ALGORITHMS.items():
        assert f"### {name}\n\n{algorithm.doc}" in page
        section = page.split(f"### Objective {type(algorithm.objective).__name__}\n")[1]
        assert "```text\n" in section.split("\n### ")[0], f"{name}: its objective has no equation"
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= anchors
