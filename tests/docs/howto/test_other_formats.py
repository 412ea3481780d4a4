"""docs/howto/other_formats.md lists every format of the table, and its commands and those of grounding_data.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import commands, read_page
from tests.fixtures.foreign_rows import write_foreign
from tests.fixtures.makers import detection, refcoco
from vlrft.cli.main import main
from vlrft.config.load import load_config
from vlrft.plugins.find import load_attribute

OTHER = read_page("docs/howto/other_formats.md")
GROUNDING = read_page("docs/howto/grounding_data.md")


def test_every_format_has_a_row() -> None:
    formats: Any = load_attribute("vlrft.tasks.table.formats:formats")
    assert set(re.findall(r"^\| `(\w+)` \|", OTHER, re.M)) == set(formats())


def test_what_was_understood_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_foreign("llava", tmp_path / "downloads/llava")
    show, *runs = [words[1:] for words in commands(OTHER)]
    assert main([*show, "--split", "train"]) == 0
    assert "format: llava (`conversations`" in capsys.readouterr().out
    for run in runs:
        assert load_config(run[1], run[2:]).task.name == "table"


def test_the_commands_of_grounding_prepare_small_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refcoco.make(tmp_path / "downloads")
    detection.make(tmp_path / "made")
    places = {
        "RefCOCO": "downloads/lmms",
        "ViRFT_COCO_8_cate_4_shot": "made/virft",
        "coco_val": "made/coco",
    }
    for name, place in places.items():
        Path("downloads", name).symlink_to(tmp_path / place)
    for words in commands(GROUNDING):
        assert main(words[1:]) == 0, words
    assert Path("data/refcoco/train.jsonl").read_text().count("\n") == 6
    assert Path("data/detection/test.jsonl").read_text().count("\n") == 3
