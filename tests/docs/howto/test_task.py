"""The task of docs/howto/task.md passes its check and trains."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.docs.pages import (
    SHORT_RUN,
    command,
    files,
    read_page,
    run_suite,
    write_files,
    write_images,
)
from vlrft.cli.main import main
from vlrft.schema import Task

PAGE = read_page("docs/howto/task.md")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    write_images(tmp_path / "data", question="question", answer="answer")
    monkeypatch.chdir(tmp_path)


def test_the_page_has_the_files_that_are_run_here() -> None:
    assert set(files(PAGE)) == {"signs.py", "signs.yaml", "test_signs.py"}


def test_the_example_has_fewer_than_25_lines_of_code() -> None:
    lines = [x for x in files(PAGE)["signs.py"].splitlines() if x.strip() and x[0] != "#"]
    assert len(lines) < 25


def test_the_task_passes_the_suite(tmp_path: Path) -> None:
    assert run_suite(tmp_path / "test_signs.py") > 3


def test_the_task_passes_its_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(PAGE, "check ./signs.py")) == 0
    assert "4 of 4 gold answers earn full marks" in capsys.readouterr().out


def test_the_task_trains() -> None:
    assert main([*command(PAGE, "train signs.yaml"), *SHORT_RUN, "--out", "run"]) == 0
    rows = [json.loads(line) for line in Path("run/rollouts.jsonl").read_text().splitlines()]
    assert {row["stage"] for row in rows} == {"sft", "gpg"}


def test_the_table_of_fields_names_real_fields() -> None:
    table = PAGE.partition("## The fields")[2].partition("\n## ")[0]
    names = {
        n for row in re.findall(r"^\| (`.*?) \|", table, re.M) for n in re.findall(r"\w+", row)
    }
    assert names <= {f.name for f in fields(Task)}
