"""The reasoning before a gold answer: read from a column, stored, and part of what `sft` teaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.table.tables import load, rows, write_table
from vlrft.cli.main import main
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError


def gold_of(loaded: LoadedTask) -> str:
    return gold_text(loaded.task, loaded.samples[0])


@pytest.mark.parametrize(
    ("prompt", "gold"),
    [
        (None, "<think>3 + 4 = 7</think><answer>7</answer>"),
        ("{question} Write \\boxed{{}}.", "3 + 4 = 7\n\\boxed{7}"),
    ],
)
def test_a_thought_comes_before_the_gold_answer(
    prompt: str | None, gold: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path, rows(["7"], why="3 + 4 = 7"))
    options: dict[str, Any] = {"answer": "math", "thought": "why", "prompt": prompt}
    assert gold_of(load(table, **options)) == gold
    given = [f"options.{k}={json.dumps(v)}" for k, v in options.items()]
    out = tmp_path / "ready"
    prepare = ["data", "prepare", "table", f"options.data={table}", *given, "--split", "train"]
    assert main([*prepare, "--out", str(out)]) == 0
    assert gold_of(load(out, **options)) == gold
    assert main(["check", "table", f"options.data={out}", *given]) == 0
    assert "3 + 4 = 7" in capsys.readouterr().out


def test_without_the_option_a_column_of_thoughts_is_no_part_of_the_answer(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows(["7"], why="3 + 4 = 7"))
    assert gold_of(load(table, answer="math")) == "<think></think><answer>7</answer>"


def test_rows_that_were_prepared_without_thoughts_are_not_read_with_them(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows(["7"], why="3 + 4 = 7"))
    out = tmp_path / "ready"
    given = [f"options.data={table}", "options.answer=math", "--split", "train"]
    assert main(["data", "prepare", "table", *given, "--out", str(out)]) == 0
    loaded = load(out, answer="math", thought="why")
    with pytest.raises(DataError, match=r"train/0: .* prepare them with options\.thought=why"):
        loaded.samples[0]


def test_a_row_without_its_thought_is_a_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = rows(["7", "8"], why="3 + 4 = 7")
    cells[1]["why"] = " "
    table = write_table(tmp_path, cells)
    command = ["data", "prepare", "table", f"options.data={table}", "options.answer=math"]
    main([*command, "options.thought=why", "--split", "train", "--out", str(tmp_path / "ready")])
    defects = (tmp_path / "ready/train.defects.jsonl").read_text()
    assert "no why, which options.thought names" in defects
