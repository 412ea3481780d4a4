"""Stored outputs, graded with the data of a pack that brings its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.signs_pack import TASK, enter_folder, write_raw
from vlrft.cli.main import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_folder(tmp_path, monkeypatch)


def predictions(path: Path, **outputs: str) -> str:
    lines = [{"id": f"test/{k[1:]}", "output": v} for k, v in outputs.items()]
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    return str(path)


def test_stored_outputs_are_graded_with_the_data_of_the_pack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_raw(tmp_path / "raw")
    path = predictions(tmp_path / "p.jsonl", s0="<answer>stop</answer>", s1="<answer>go</answer>")
    command = ["score", TASK, "--predictions", path, "--data", "raw", "--json", "out/o.json"]
    Path("out").mkdir()
    assert main(command) == 0
    output = capsys.readouterr()
    assert "4 of 6 samples have no output" in output.err
    assert "1/2" in output.out
    result = json.loads(Path("out/o.json").read_text())
    assert (result["task"], result["n"], result["records"]) == (TASK, 2, "out/o.records.jsonl")
    assert (result["strict"]["correct"], result["strict"]["n"], result["strict"]["score"]) == (
        1,
        2,
        0.5,
    )
    assert result["official"]["correct"] == 2
    assert len(result["official"]["ci"]) == 2
    records = [json.loads(line) for line in Path(result["records"]).read_text().splitlines()]
    assert {k: records[1][k] for k in ("id", "output", "extracted", "answer")} == {
        "id": "test/1",
        "output": "<answer>go</answer>",
        "extracted": "go",
        "answer": "stop",
    }
    assert (records[1]["strict"], records[1]["official"]) == (0.0, 1.0)
    assert main(command) == 2
    assert main([*command, "--overwrite", "--grader", "strict"]) == 0
    assert "official" not in json.loads(Path("out/o.json").read_text())


def test_stored_outputs_may_bring_their_gold_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"id": k, "output": "<answer>go</answer>", "answer": a} for k, a in enumerate(("go", "x"))
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert main(["score", TASK, "--predictions", "p.jsonl"]) == 0
    assert "1/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "test/0"}', "name it with --output-key; columns: id"),
        ('{"id": "test/0", "output": {}}', "row 1: 'output' is no text, but '{}'"),
        ('{"id": "test/99", "output": ""}', "row 1: no sample 'test/99' in the data"),
        ('{"id": "test/0", "output": "", "answer": ""}', "gold answer '' is not an option"),
        ("nothing", "line 1: not JSON"),
    ],
)
def test_the_error_names_a_prediction_that_cannot_be_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    write_raw(tmp_path / "raw")
    (tmp_path / "p.jsonl").write_text(line + "\n")
    data = [] if "answer" in line else ["--data", "raw"]
    assert main(["score", TASK, "--predictions", "p.jsonl", *data]) == (
        1 if "option" in message else 2
    )
    assert message in capsys.readouterr().err
