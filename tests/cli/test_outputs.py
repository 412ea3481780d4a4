"""Files that commands write: nothing is overwritten unasked, and no input is ever."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import Tiny
from vlrft.cli.main import main
from vlrft.schema import Record

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
def test_a_tilde_is_the_home_folder_of_thoughts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))
    Path("th.csv").write_text("id,thought\na,One and one.\n")
    prepare = ["data", "prepare", *TABLE, "--split", "train", "--out", "made"]
    assert main([*prepare, "--thoughts=~/th.csv"]) == 0
    assert "One and one." in Path("made/train.jsonl").read_text()


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


def test_a_comparison_from_another_folder_reads_each_evaluation_s_own_records(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path of the records is stored as it was written, relative to the folder of then."""
    wrong = {**ROW, "output": "<answer>8</answer>"}
    for folder, row in (("base", wrong), ("tuned", ROW)):
        Path(folder).mkdir()
        Path(folder, "p.jsonl").write_text(json.dumps(row) + "\n")
        monkeypatch.chdir(here / folder)
        assert main([*SCORE, "p.jsonl", "--json", "eval.json"]) == 0
        monkeypatch.chdir(here)
    monkeypatch.chdir(here / "tuned")
    capsys.readouterr()
    assert main(["compare", "../base/eval.json", "eval.json"]) == 0
    assert "+100.00" in capsys.readouterr().out


def test_records_of_another_evaluation_are_not_read_as_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**ROW, "id": "b", "output": "<answer>8</answer>"}
    Path("two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (ROW, other)))
    assert main([*SCORE, "p.jsonl", "--json", "one/e.json"]) == 0
    assert main([*SCORE, "two.jsonl", "--json", "two/e.json"]) == 0
    (here / "one" / "e.records.jsonl").write_bytes((here / "two" / "e.records.jsonl").read_bytes())
    capsys.readouterr()
    assert main(["compare", "one/e.json", "two/e.json"]) == 2
    said = "vlrft: one/e.json: is of 1 answer, but one/e.records.jsonl has 2, so it is of another evaluation\n"
    assert capsys.readouterr().err == said


def test_results_that_were_moved_are_read_with_their_records(here: Path) -> None:
    assert main([*SCORE, "p.jsonl", "--json", "a/e.json"]) == 0
    (here / "a" / "e.json").rename(here / "a" / "renamed.json")
    assert main(["compare", "a/renamed.json", "a/renamed.json"]) == 0
    (here / "a").rename(here / "b")
    assert main(["compare", "b/renamed.json", "b/renamed.json"]) == 0
    (here / "b" / "renamed.json").rename(here / "elsewhere.json")
    assert main(["compare", "elsewhere.json", "elsewhere.json"]) == 1


def test_tags_that_are_no_text_are_read_as_text(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are compared, and shown on the page."""
    tags = ROW["tags"]
    rows = [
        {**ROW, "id": name, "tags": {**tags, "level": level, "none": None}}  # type: ignore[dict-item]
        for name, level in (("a", 3), ("b", 4))
    ]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main([*SCORE, "t.jsonl", "--json", "t.json", "--html", "t.html"]) == 0
    assert "level: 3" in Path("t.html").read_text()
    capsys.readouterr()
    assert main(["compare", "t.json", "t.json", "--by", "level"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        "all",
        "3",
        "4",
    ]
    first = json.loads(Path("t.records.jsonl").read_text().splitlines()[0])
    assert first["tags"] == {**tags, "level": "3"}  # type: ignore[dict-item]


def test_results_have_a_name_that_compare_and_report_know(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records of exp.v1 and of exp.v2 would be one file."""
    for words in ([*SCORE, "p.jsonl"], ["eval", "--model", "m", "--task", "digits"]):
        for name in ("results", "exp.v1", "out.jsonl"):
            capsys.readouterr()
            assert main([*words, "--json", name]) == 2
            said = f"vlrft: --json {name}: give a name that ends in .json, by which vlrft compare and vlrft report know it\n"
            assert capsys.readouterr().err == said
    assert set(contents(here)) == {"p.jsonl"}


def test_a_folder_that_cannot_be_written_is_found_before_the_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (
        [*SCORE, "p.jsonl", "--html", "/proc/x.html"],
        [*SCORE, "p.jsonl", "--json", "/proc/x.json"],
        ["data", "show", "digits", "--split", "train", "--html", "/proc/x.html"],
    ):
        capsys.readouterr()
        assert main(words) == 2
        assert (
            capsys.readouterr().err
            == f"vlrft: {words[-1]}: cannot be written (No such file or directory)\n"
        )


def test_records_that_cannot_be_written_leave_no_draft_and_are_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(path: Path, records: Iterable[Record]) -> None:
        path.write_text("half a line")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("vlrft.evaluation.result_files.write_records", fill)
    assert main([*SCORE, "p.jsonl", "--json", "m.json"]) == 1
    assert "vlrft: m.records.jsonl: No space left on device" in capsys.readouterr().err
    assert set(contents(here)) == {"p.jsonl"}


def test_results_are_written_where_nobody_reads_what_is_printed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `PYTHONUNBUFFERED=1 vlrft score … --json m.json | true`."""

    class Closed(io.TextIOWrapper):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with (here / "pipe").open("wb") as file, Closed(file) as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert main([*SCORE, "p.jsonl", "--json", "m.json"]) == 1
        monkeypatch.undo()
    assert json.loads((here / "m.json").read_text())["n"] == 1
