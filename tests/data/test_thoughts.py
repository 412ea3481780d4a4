"""`vlrft data prepare --thoughts`: the reasoning before gold answers, from a table of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tasks.published_matrix import call
from tests.tasks.table.tables import load, rows, write_rows, write_table
from vlrft.cli.main import main
from vlrft.data import Row
from vlrft.data.thoughts import Thoughts
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.schema import DataError

WHY = {"id": "train/0", "thought": "3 + 4 = 7"}


def prepare(folder: Path, *more: str) -> list[str]:
    table = write_table(folder, rows(["7", "8"]))
    given = ["table", f"options.data={table}", "options.answer=math", "--split", "train", *more]
    return ["data", "prepare", *given, "--out", str(folder / "ready")]


def test_a_thought_is_stored_with_the_row_of_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thoughts = write_rows(tmp_path / "why.jsonl", [WHY, {"id": "elsewhere", "thought": "x"}])
    assert main(prepare(tmp_path, "--thoughts", str(thoughts))) == 0
    out = capsys.readouterr().out
    assert "1 of 2 rows have a thought, from why.jsonl" in out
    assert "1 thought of why.jsonl not used, no row of train has the id: 'elsewhere'" in out
    loaded = load(tmp_path / "ready", answer="math")
    assert [gold_text(loaded.task, sample) for sample in loaded.samples] == [
        "<think>3 + 4 = 7</think><answer>7</answer>",
        "<think></think><answer>8</answer>",
    ]


def test_a_prepared_split_is_not_taken_for_one_with_other_thoughts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thoughts = write_rows(tmp_path / "why.jsonl", [WHY])
    more = ["--thoughts", str(thoughts)]
    assert main(prepare(tmp_path, *more)) == 0
    assert "not used" not in capsys.readouterr().out
    assert main(prepare(tmp_path, *more)) == 0
    assert "already prepared" in capsys.readouterr().out
    assert "the train split was prepared with other --thoughts" in call(*prepare(tmp_path))
    write_rows(thoughts, [WHY | {"thought": "4 + 3 = 7"}])
    assert "prepare it again with --overwrite" in call(*prepare(tmp_path, *more))
    assert main(prepare(tmp_path, *more, "--overwrite")) == 0


def test_a_prepared_split_names_its_thoughts_by_their_hash(tmp_path: Path) -> None:
    thoughts = write_rows(tmp_path / "why.jsonl", [WHY])
    main(prepare(tmp_path, "--thoughts", str(thoughts)))
    manifest = json.loads((tmp_path / "ready/manifest.json").read_text())
    assert manifest["splits"]["train"]["thoughts"] == Thoughts.read(thoughts).digest()
    write_rows(thoughts, [WHY | {"thought": "4 + 3 = 7"}])
    assert manifest["splits"]["train"]["thoughts"] != Thoughts.read(thoughts).digest()


def test_a_thought_before_several_turns_is_refused() -> None:
    task = find_task("gridworld")
    sample = replace(next(iter(task.load("train", task.options()))), thought="left")
    with pytest.raises(
        DataError, match="has a thought, which comes before a gold answer of one turn"
    ):
        gold_text(task, sample)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([WHY, WHY], "why.jsonl, row 2: the id train/0 is there twice"),
        ([{"id": "a", "reason": "x"}], "why.jsonl, row 1: expected the columns id and thought, a text"),
        ([{"id": "a", "thought": " "}], "why.jsonl, row 1: expected the columns id and thought, a text"),
        ([{"thought": "x"}], "why.jsonl, row 1: expected the columns id and thought, a text"),
        ([], "no row; expected the columns id and thought"),
    ],
)  # fmt: skip
def test_a_table_that_is_none_of_thoughts_is_refused(
    lines: list[dict[str, str]], problem: str, tmp_path: Path
) -> None:
    thoughts = write_rows(tmp_path / "why.jsonl", lines)
    assert problem in call(*prepare(tmp_path, "--thoughts", str(thoughts)))
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["prepare", "geoqa", "--synthetic", "4", "--out", "x", "--thoughts", "t.jsonl"],
         "--thoughts: cannot be combined with --synthetic"),
        (["prepare", "geoqa", "--out", "x", "--thoughts", "t.jsonl"], "t.jsonl: cannot be read"),
        (["show", "geoqa", "--thoughts", "t.jsonl"], "--thoughts: vlrft data show has no use for it"),
    ],
)  # fmt: skip
def test_thoughts_that_cannot_be_used_are_refused(command: list[str], problem: str) -> None:
    assert problem in call("data", *command)


def test_a_row_with_a_thought_of_its_own_is_not_given_another(tmp_path: Path) -> None:
    thoughts = Thoughts(path=Path("why.jsonl"), by_id={"a": "x"})
    row = Row(id="a", question="q", answer="7", thought="y")
    with pytest.raises(DataError, match=r"why\.jsonl: row a has a thought of its own"):
        list(thoughts.add_to([row]))
