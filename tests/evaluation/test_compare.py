"""Comparisons of two evaluations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from vlrft.cli.main import main
from vlrft.evaluation.compare import compare, mcnemar
from vlrft.evaluation.result_files import write_records
from vlrft.schema import DataError, Record


def records(grades: dict[str, float], **kinds: str) -> list[Record]:
    return [
        Record(id=n, output=n, grades={"strict": g}, tags={"kind": kinds.get(n, "x")})
        for n, g in grades.items()
    ]


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (5, 5), (1, 9), (12, 3), (700, 650)])
def test_mcnemar_is_the_exact_sign_test_of_changed_samples(gained: int, lost: int) -> None:
    expected = 1.0 if gained + lost == 0 else binomtest(gained, gained + lost).pvalue
    assert mcnemar(gained, lost) == pytest.approx(expected)


def test_a_comparison_by_hand() -> None:
    before = records({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.4}, d="y")
    after = records({"d": 0.6, "a": 0.0, "b": 1.0, "c": 1.0}, d="y")
    everything, x, y = compare(before, after, "strict", 0.5, "kind")
    assert (everything.name, everything.n, everything.gained, everything.lost) == ("all", 4, 3, 1)
    assert everything.gain == pytest.approx((2.6 - 1.4) / 4)
    assert (x.name, x.n, x.gained, x.lost) == ("x", 3, 2, 1)
    assert (y.name, y.before, y.after, y.gained) == ("y", 0.4, 0.6, 1)
    assert compare(before, after, "strict", 1.0, "kind")[2].gained == 0


def test_a_tag_that_some_samples_have_has_a_row_of_them() -> None:
    before, after = (
        [*records({"a": g}, a="hard"), Record(id="b", output="", grades={"strict": 1.0})]
        for g in (0.0, 1.0)
    )
    everything, hard = compare(before, after, "strict", 1.0, "kind")
    assert (everything.name, everything.n, everything.gain) == ("all", 2, 0.5)
    assert (hard.name, hard.n, hard.gain) == ("hard", 1, 1.0)


def test_answers_to_one_sample_count_as_one() -> None:
    before = records({"a": 0.0}) + records({"a": 1.0})
    (row,) = compare(before, records({"a": 1.0}), "strict", 1.0, "kind")
    assert (row.n, row.before, row.after, row.gained) == (1, 0.5, 1.0, 1)


def test_evaluations_of_different_samples_are_refused() -> None:
    with pytest.raises(
        DataError, match="only one of the two evaluations has 2 samples, such as 'a'"
    ):
        compare(records({"a": 1.0}), records({"b": 1.0}), "strict", 1.0, "kind")
    with pytest.raises(DataError, match="sample a: no official grade"):
        compare(records({"a": 1.0}), records({"a": 1.0}), "official", 1.0, "kind")


def test_the_command_prints_and_writes_one_row_for_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "a.jsonl", records({"p": 0.0, "q": 0.0}, q="y"))
    write_records(tmp_path / "b.jsonl", records({"p": 1.0, "q": 0.0}, q="y"))
    command = ["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    assert main([*command, "--json", str(tmp_path / "out.json")]) == 0
    stdout = capsys.readouterr().out
    assert "strict (correct: a grade of at least 1)" in stdout
    assert [line.split()[0] for line in stdout.splitlines()[2:]] == ["all", "x", "y"]
    rows = json.loads((tmp_path / "out.json").read_text())["strict"]
    assert [(row["name"], row["gain"]) for row in rows] == [("all", 0.5), ("x", 1.0), ("y", 0.0)]
    assert main([*command, "--json", str(tmp_path / "out.json")]) == 2
    assert main(["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "c.jsonl")]) == 1
    assert "no such file" in capsys.readouterr().err


def test_a_tag_that_no_sample_has_is_an_error_that_lists_the_tags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "a.jsonl", records({"p": 0.0, "q": 1.0}))
    command = ["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "a.jsonl")]
    assert main([*command, "--by", "class"]) == 2
    assert "--by class: no sample has this tag; tags: kind" in capsys.readouterr().err
    assert main([*command, "--by", "kind"]) == 0
