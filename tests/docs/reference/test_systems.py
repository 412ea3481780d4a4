"""docs/reference/systems.md is what docs/systems.py makes of the catalogue."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from vlrft.config.systems import all_systems

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_up_to_date_and_has_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    page: str = importlib.import_module("systems").page()
    assert (DOCS / "reference" / "systems.md").read_text(encoding="utf-8") == page, "run make docs"
    rows = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    assert sorted(int(row.split(" ")[1]) for row in rows) == list(all_systems())
