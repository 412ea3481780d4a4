"""Files that commands write: nothing is overwritten unasked, and no input is ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Tiny
from vlrft.cli.main import main

ROW = {
    "id": "a",
    "output": "<answer>7</answer>",
    "answer": "7",
    "tags": {"answer": "count", "kind": "count"},
}
SCORE = ["score", "digits", "--predictions"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text(json.dumps(ROW) + "\n")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_scoring_never_replaces_the_outputs_that_it_reads(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stored records are outputs as well, and the records of mine.json are mine.records.jsonl."""
    stored = json.dumps({**ROW, "extracted": "7"}) + "\n"
    Path("mine.records.jsonl").write_text(stored)
    Path("link.json").symlink_to("p.jsonl")
    before = contents(here)
    for predictions, out in (
        ("mine.records.jsonl", "mine.json"),
        ("p.jsonl", "p.jsonl"),
        ("p.jsonl", "link.json"),
    ):
        assert main([*SCORE, predictions, "--json", out, "--overwrite"]) == 2
        assert "is read by this command" in capsys.readouterr().err
    assert main([*SCORE, "p.jsonl", "--json", "mine.json"]) == 2
    assert "mine.records.jsonl exists; use --overwrite" in capsys.readouterr().err
    assert contents(here) == before
    assert main([*SCORE, "p.jsonl", "--json", "new/mine.json"]) == 0
    assert set(contents(here / "new")) == {"mine.json", "mine.records.jsonl"}


def test_a_file_of_others_with_the_name_of_the_records_is_kept(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.records.jsonl").write_text('{"song": "a"}\n')
    before = contents(here)
    assert main([*SCORE, "p.jsonl", "--json", "mine.json", "--overwrite"]) == 2
    assert "exists, and vlrft did not write it" in capsys.readouterr().err
    assert contents(here) == before


def test_a_comparison_never_replaces_what_it_compares(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SCORE, "p.jsonl", "--json", "mine.json"]) == 0
    before = contents(here)
    compared = ["compare", "mine.json", "mine.json", "--json"]
    assert main([*compared, "mine.json", "--overwrite"]) == 2
    assert "mine.json is read by this command" in capsys.readouterr().err
    assert contents(here) == before
    assert main([*compared, "new/c.json"]) == 0


def test_a_new_file_replaces_a_link_and_not_its_target(here: Path) -> None:
    Path("thesis.py").write_text("words")
    Path("mine.py").symlink_to("thesis.py")
    assert main(["new", "reward", "mine"]) == 2
    assert main(["new", "reward", "mine", "--overwrite"]) == 0
    assert Path("thesis.py").read_text() == "words"
    assert "def mine(" in Path("mine.py").read_text()


def test_a_misspelled_file_of_outputs_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "digits", "--predictions", "pp.jsonl"]) == 2
    assert "pp.jsonl: no such file; did you mean p.jsonl?" in capsys.readouterr().err


TABLE = ["table", "options.data=tab.jsonl", "options.answer=math"]


@pytest.fixture
def table() -> None:
    """Questions, and outputs whose own gold answers differ from those of the questions."""
    rows = [
        {"id": "a", "question": "1+1?", "answer": "2"},
        {"id": "b", "question": "1+2?", "answer": "3"},
    ]
    Path("tab.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = [
        {"id": "a", "output": "<answer>2</answer>", "answer": "2"},
        {"id": "b", "output": "<answer>3</answer>", "answer": "9"},
    ]
    Path("out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in outputs))


@pytest.mark.usefixtures("table")
def test_the_task_s_data_are_never_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    for command in (
        ["score", *TABLE, "--predictions", "out.jsonl", "--split", "train", "--json", "tab.jsonl"],
        ["score", *TABLE, "--predictions", "out.jsonl", "--split", "train", "--html", "tab.jsonl"],
        ["data", "show", *TABLE, "--split", "train", "--html", "tab.jsonl"],
    ):
        assert main([*command, "--overwrite"]) == 2
        assert "tab.jsonl is read by this command" in capsys.readouterr().err
    assert contents(here) == before


@pytest.mark.usefixtures("table")
def test_a_comparison_never_replaces_the_records_that_it_reads(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SCORE, "p.jsonl", "--json", "s.json"]) == 0
    before = contents(here)
    assert main(["compare", "s.json", "s.json", "--json", "s.records.jsonl", "--overwrite"]) == 2
    assert "s.records.jsonl is read by this command" in capsys.readouterr().err
    assert contents(here) == before


@pytest.mark.usefixtures("here")
def test_results_and_their_page_are_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    for html, written in (("./x.json", "x.json"), ("x.records.jsonl", "x.records.jsonl")):
        assert main([*SCORE, "p.jsonl", "--json", "x.json", "--html", html]) == 2
        assert f"--json and --html both write {written}; give two files" in capsys.readouterr().err
    assert not Path("x.json").exists()


def test_a_tilde_is_the_home_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert main([*SCORE, "p.jsonl", "--json=~/new.json"]) == 0
    assert "new.json" in contents(here)


@pytest.mark.usefixtures("table")
def test_data_named_by_an_option_count_as_those_of_the_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their gold answers are the ones that count, and a missing file is an error."""
    score = [
        "score",
        "table",
        "--predictions",
        "out.jsonl",
        "options.answer=math",
        "--split",
        "train",
    ]
    shown = []
    for data in (["options.data=tab.jsonl"], ["--data", "tab.jsonl"]):
        assert main([*score, *data]) == 0
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]
    assert "2/2" in shown[0].out
    assert main([*score, "options.data=nowhere.jsonl"]) != 0
    assert "nowhere.jsonl" in capsys.readouterr().err


def test_overwrite_is_refused_where_there_is_nothing_to_replace(
    here: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("qwen2").save(here / "m")
    capsys.readouterr()
    for command, files in (
        (["eval", "--model", "m", "--task", "digits"], "--json or --html"),
        (["score", "digits", "--predictions", "p.jsonl"], "--json or --html"),
        (["compare", "a.json", "b.json"], "--json"),
        (["data", "show", "digits"], "--html"),
    ):
        assert main([*command, "--overwrite"]) == 2
        expected = f"vlrft: --overwrite: no file is written that it could replace; give {files}, or leave it out\n"
        assert capsys.readouterr().err == expected
    assert main(["report", "runs/mine", "--overwrite"]) == 2
    assert "--overwrite: a run's report is always written again" in capsys.readouterr().err
