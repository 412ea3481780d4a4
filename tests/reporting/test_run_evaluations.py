"""A run's evaluations read back from its folder, and `vlrft compare` of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.data.jsonl import append_rows
from vlrft.reporting.run_evaluations import find_run_log, read_evaluation
from vlrft.reporting.run_folder.names import EVALS
from vlrft.schema import DataError


def write_run(run: Path, evaluations: Mapping[tuple[str, int], Mapping[str, float]]) -> Path:
    """A run's folder with the strict grades of its evaluations by stage and step."""
    run.mkdir()
    for (stage, step), grades in evaluations.items():
        rows = [
            {"stage": stage, "step": step, "split": "test", "id": name, "prompt": "?", "images": [],
             "answer": "7", "tags": {"kind": "x"}, "output": name, "extracted": name,
             "grades": {"strict": grade}, "scores": {"choice": grade}, "truncated": False}
            for name, grade in grades.items()
        ]  # fmt: skip
        append_rows(run / EVALS, rows)
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    evaluations = {
        ("init", 0): {"a": 0.0, "b": 0.0, "c": 1.0},
        ("sft", 20): {"a": 1.0, "b": 0.0, "c": 1.0},
        ("gpg", 40): {"a": 1.0, "b": 1.0, "c": 1.0},
    }
    return write_run(tmp_path / "demo", evaluations)


def test_a_run_is_its_last_evaluation_and_a_step_is_the_one_after_it(run: Path) -> None:
    for place, grades in (
        (run, [1, 1, 1]),
        (run / EVALS, [1, 1, 1]),
        (run.with_name("demo@20"), [1, 0, 1]),
        (run / f"{EVALS}@0", [0, 0, 1]),
    ):
        log = find_run_log(place)
        assert log is not None
        records = read_evaluation(*log)
        assert [r.grades["strict"] for r in records] == grades
        assert (records[0].id, records[0].answer, records[0].tags) == ("a", "7", {"kind": "x"})


def test_a_step_without_an_evaluation_is_an_error_that_lists_the_others(run: Path) -> None:
    with pytest.raises(
        DataError, match=r"no evaluation after step 7; there are some after 0, 20, 40"
    ):
        read_evaluation(run / EVALS, 7)


def test_other_files_and_folders_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text('{"id": "a", "output": "", "extracted": null}\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.jsonl").write_text("")
    for name in ("records.jsonl", "empty", "none.jsonl", "absent", "absent@3"):
        assert find_run_log(tmp_path / name) is None


def test_a_folder_whose_name_has_an_at_sign_is_taken_as_it_is(tmp_path: Path) -> None:
    run = write_run(tmp_path / "try@2", {("init", 0): {"a": 1.0}})
    assert find_run_log(run) == (run / EVALS, None)


def test_compare_pairs_two_evaluations_of_a_run_and_a_run_with_its_control(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out.json"
    assert main(["compare", f"{run}@0", str(run), "--json", str(out)]) == 0
    (row,) = json.loads(out.read_text())["strict"]
    assert (row["n"], row["gained"], row["lost"]) == (3, 2, 0)
    control = write_run(tmp_path / "control", {("gpg", 40): {"a": 0.0, "b": 0.0, "c": 0.0}})
    files = [str(control / EVALS), str(run / EVALS)]
    assert main(["compare", *files, "--json", str(out), "--overwrite"]) == 0
    (row,) = json.loads(out.read_text())["strict"]
    assert (row["before"], row["after"]) == (0.0, 1.0)
    (control / "summary.json").write_text('{"task": "digits"}')
    (run / "summary.json").write_text('{"task": "counting"}')
    assert main(["compare", *files]) == 1
    assert "are of two tasks, digits and counting" in capsys.readouterr().err
    monkeypatch.chdir(run)
    assert main(["compare", ".@0", "."]) == 0
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "empty"), str(run)]) == 1
    assert "empty: a folder without evaluations of a run (evals.jsonl)" in capsys.readouterr().err
    assert main(["compare", f"{run}@7", str(run)]) == 1
    assert "no evaluation after step 7" in capsys.readouterr().err


def write_threshold(run: Path, **thresholds: float | None) -> None:
    """The run's summary, with the thresholds of its metrics; None: as an earlier version wrote it, without one."""
    score = {"correct": 0, "n": 2, "score": 0.0, "ci": [0.0, 1.0]}
    scores = {
        name: score if threshold is None else {**score, "threshold": threshold}
        for name, threshold in thresholds.items()
    }
    evals = [{"stage": "gpg", "step": 40, "split": "test", "scores": scores}]
    (run / "summary.json").write_text(json.dumps({"task": "boxes", "evals": evals}))


def test_runs_are_compared_by_the_threshold_of_their_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = write_run(tmp_path / "before", {("gpg", 40): {"a": 0.4, "b": 0.4}})
    after = write_run(tmp_path / "after", {("gpg", 40): {"a": 0.6, "b": 0.4}})
    command = ["compare", str(before), str(after)]
    write_threshold(before, accuracy=0.5, iou=0.9)  # the first metric is the headline
    write_threshold(after, accuracy=0.5, iou=0.9)
    assert main(command) == 0
    table = capsys.readouterr().out
    assert "strict (correct: a grade of at least 0.5)" in table
    assert table.splitlines()[2].split()[-3:] == ["1", "0", "1"]
    write_threshold(before, accuracy=None)
    assert main(command) == 0
    assert "at least 0.5)" in capsys.readouterr().out
    write_threshold(before, accuracy=0.7)
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"vlrft: strict: a grade counts as correct from 0.7 in {before}, and from 0.5 in {after}; give --threshold\n"
    )
    assert main([*command, "--threshold", "0.6"]) == 0
    assert "at least 0.6)" in capsys.readouterr().out
    write_threshold(before, accuracy=None)
    write_threshold(after, accuracy=None)
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"vlrft: strict: the grade that counts as correct is not stored in {before} or {after}; give --threshold\n"
    )


def test_the_official_threshold_is_that_of_the_official_grader_s_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", {("gpg", 40): {"a": 0.4}})
    text = (run / EVALS).read_text().replace('{"strict": 0.4}', '{"strict": 0.4, "official": 0.4}')
    (run / EVALS).write_text(text)
    write_threshold(run, accuracy=0.5, **{"accuracy (official)": 0.3})
    assert main(["compare", str(run), str(run)]) == 0
    table = capsys.readouterr().out
    assert "strict (correct: a grade of at least 0.5)" in table
    assert "official (correct: a grade of at least 0.3)" in table
