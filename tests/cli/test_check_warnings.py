"""vlrft check and vlrft data prepare: what was chosen or guessed is said, and splits that are not there stop neither."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vlrft.cli.main import main
from vlrft.testing.small_policies import noise_image

PACK = """
from dataclasses import dataclass
from vlrft.data import Dataset, read_qa_rows, user_sample
from vlrft.schema import Task

@dataclass(frozen=True, kw_only=True)
class Options:
    data: str | None = None

task = Task(name="quiz", doc="A quiz.", options=Options, splits=("train", "test"),
            load=Dataset(read=lambda source, split, options: read_qa_rows(source, split),
                         sample=lambda row, options: user_sample(row, (row.question,)), sources={}),
            rewards={"math_answer": 1.0}, graders={"strict": ("math_answer",), "official": ("format",)},
            gold=lambda s: f"<think></think><answer>{s.answer}</answer>")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.py").write_text(PACK)


def write(folder: str, rows: Sequence[dict[str, Any]], split: str = "train") -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit code, and the warnings."""
    code = main(["check", *words])
    lines = capsys.readouterr().err.splitlines()
    return code, [line for line in lines if line.startswith("warning: ")]


def quiz(k: int, **cells: Any) -> dict[str, Any]:
    return {"question": f"{k} + 1 = ?", "answer": str(k + 1), **cells}


def test_a_column_that_was_guessed_among_several_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("raw", [quiz(k, ground_truth=str(7 * k)) for k in range(5)])
    warning = "warning: train: the gold answers are those of the column 'ground_truth', a guess: 'answer' has other ones"
    assert check(capsys, "./quiz.py:task", "options.data=raw") == (0, [warning])
    assert main(["data", "prepare", "./quiz.py:task", "--from", "raw", "--out", "ready"]) == 0
    assert warning.removeprefix("warning: train: ") in capsys.readouterr().out
    assert check(capsys, "./quiz.py:task", "options.data=ready") == (0, [warning])
    write("same", [quiz(k, solution=f"<answer> {k + 1} </answer>") for k in range(5)])
    assert check(capsys, "./quiz.py:task", "options.data=same") == (0, [])


def test_letters_beside_options_are_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [quiz(k, answer="ABCD"[k % 4], choices=["1", "2", "3", "4"]) for k in range(5)]
    write("raw", rows)
    assert check(capsys, "./quiz.py:task", "options.data=raw") == (
        0,
        [
            "warning: train: 5 of 5 gold answers are letters of the options in the column 'choices': only a question "
            "that lists its options can be answered with a letter"
        ],
    )


def test_gold_answers_that_are_all_alike_are_odd(capsys: pytest.CaptureFixture[str]) -> None:
    write("raw", [quiz(k, answer="4") for k in range(5)])
    assert check(capsys, "./quiz.py:task", "options.data=raw") == (
        0,
        ["warning: train: all 5 gold answers are '4'"],
    )
    write("few", [quiz(k, answer="4") for k in range(3)])
    assert check(capsys, "./quiz.py:task", "options.data=few") == (0, [])


def test_the_card_s_letters_of_geometry3k_are_not_its_gold_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hub's hiyouga/geometry3k has the letter of the right choice in `ground_truth` and its value in `answer`."""
    noise_image(8, 8).save("x.png")
    picture = {"bytes": Path("x.png").read_bytes(), "path": None}
    rows = [
        {
            "images": [picture],
            "problem": "<image>Find $x$.",
            "answer": value,
            "id": 2401 + k,
            "choices": ["12", "5.5", "6 \\sqrt { 3 }", "7.5"],
            "ground_truth": letter,
        }
        for k, (value, letter) in enumerate(
            [("6 \\sqrt { 3 }", "C"), ("12", "A"), ("5.5", "B"), ("7.5", "D")]
        )
    ]
    Path("hub/data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), "hub/data/test-00000-of-00001.parquet")
    assert check(capsys, "geometry3k", "options.data=hub", "--split", "test") == (0, [])
    for columns in (["answer"], ["answer", "id", "choices"], ["choices", "ground_truth"]):
        some = [{key: row[key] for key in ("images", "problem", *columns)} for row in rows]
        pq.write_table(pa.Table.from_pylist(some), "hub/data/test-00000-of-00001.parquet")
        command = ["data", "prepare", "geometry3k", "--from", "hub", "--out", "-".join(columns)]
        assert main([*command, "--split", "test"]) == 0
        lines = Path("-".join(columns), "test.jsonl").read_text().splitlines()
        assert [json.loads(line)["answer"] for line in lines] == [row["answer"] for row in rows]


def test_splits_that_are_not_there_are_named_and_the_others_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("raw", [quiz(k) for k in range(5)], "test")
    assert main(["data", "prepare", "./quiz.py:task", "--from", "raw", "--out", "ready"]) == 0
    capsys.readouterr()
    assert main(["check", "./quiz.py:task", "options.data=ready"]) == 0
    output = capsys.readouterr()
    assert "test: 5 of 5 gold answers earn full marks" in output.out
    assert (
        "train: not checked: ready: the train split is not prepared; prepared are test"
        in output.err
    )
    assert "prompt: " in output.out  # of the split that was checked
    assert main(["check", "./quiz.py:task", "options.data=ready", "--split", "train"]) == 1
    assert main(["check", "./quiz.py:task"]) == 1
    assert "the test split is not on the hub" in capsys.readouterr().err


def test_a_gold_answer_without_turns_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    Path("room.py").write_text(ROOM)
    assert main(["check", "room.py"]) == 1
    output = capsys.readouterr()
    assert output.out == "train: 0 of 1 gold answers earn full marks\n"
    assert output.err == "  sample a: the gold answer has no turn\n"


ROOM = """
from dataclasses import dataclass
from tests.fakes.envs import EchoEnv
from vlrft.schema import Sample, Task

@dataclass(frozen=True, kw_only=True)
class Options:
    pass

task = Task(name="room", doc="A room.", options=Options, splits=("train",), load=lambda *_: [Sample(id="a", messages=())],
            rewards={}, graders={"strict": ("turns",)}, env_scores=("turns",), gold=lambda sample: [], env=EchoEnv)
"""
