"""The data of docs/howto/own_data.md are prepared, shown, checked and trained on with the page's commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import (
    ROOT,
    SHORT_RUN,
    command,
    files,
    read_page,
    write_files,
    write_images,
)
from vlrft.cli.main import main

PAGE = read_page("docs/howto/own_data.md")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    write_images(tmp_path / "raw", question="problem", answer="solution")
    with (tmp_path / "raw" / "train.jsonl").open("a") as file:
        file.write(json.dumps({"problem": "Which?", "solution": "green"}) + "\n")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)


def test_the_page_s_commands_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(files(PAGE)) == {"charts.py"}
    assert main(command(PAGE, "prepare ./charts.py")) == 0
    prepared = {p.name for p in Path("data/charts").iterdir()}
    assert {"train.jsonl", "test.jsonl", "images", "manifest.json"} <= prepared
    (defect,) = Path("data/charts/train.defects.jsonl").read_text().splitlines()
    assert "incomplete row" in defect
    assert main(command(PAGE, "data show")) == 0
    assert Path("sheet.html").exists()
    assert main(command(PAGE, "check ./charts.py")) == 0
    assert "4 of 4 gold answers earn full marks" in capsys.readouterr().out
    assert main([*command(PAGE, "task=./charts.py"), *SHORT_RUN, "--out", "run"]) == 0
