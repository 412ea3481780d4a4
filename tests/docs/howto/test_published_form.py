"""The record of docs/howto/published_form.md is of the form, and says what the one of the tests says."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import blocks, read_page
from tests.fixtures.published.record import Record, load_records

PAGE = read_page("docs/howto/published_form.md")


def test_the_shown_record_is_valid(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "json")
    (tmp_path / "math500.json").write_text(block, encoding="utf-8")
    shown, real = Record.read(tmp_path / "math500.json"), load_records()["math500"]
    assert (shown.place, shown.revision, shown.splits) == (real.place, real.revision, real.splits)
    assert set(shown.columns()) < set(real.columns())
