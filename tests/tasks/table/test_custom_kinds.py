"""A table of several kinds of answers: which rewards grade a row, and which kinds are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.config import RewardConfig, TaskConfig
from vlrft.grading import KINDS
from vlrft.rollout.bad_rows import check_gold_answers
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError
from vlrft.scoring.graders import STRICT

from .tables import write_rows

ROOT = Path(__file__).parents[3]
UNKNOWN = {
    "another case": ("Math", "7"),
    "words": ("multiple choice", "B"),
    "a span": ("span", [1, 2]),
    "a class": ("class", "cat"),
    "a kind without a reward": ("count", 7),
}
REWARDS = ("format", "length", "math_answer", "choice", "temporal_iou")


def load_kinds(
    folder: Path, *cells: tuple[str, object], rewards: tuple[str, ...] = REWARDS
) -> LoadedTask:
    """A table with a row for each kind and gold answer."""
    table = [
        {"id": f"row{i}", "question": "q?", "answer": a, "kind": k}
        for i, (k, a) in enumerate(cells)
    ]
    data = write_rows(folder / "data.jsonl", table)
    options = {"data": str(data), "answer": "custom", "kinds": "kind"}
    weights = {name: RewardConfig() for name in rewards}
    return load_task(TaskConfig(name="table", options=options, rewards=weights), "train")


@pytest.mark.parametrize(("kind", "answer"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_kind_that_no_reward_of_content_reads_is_refused(
    tmp_path: Path, kind: str, answer: object
) -> None:
    loaded = load_kinds(tmp_path, ("math", "7"), (kind, answer))
    with pytest.raises(DataError) as caught:
        check_gold_answers(loaded)
    message = str(caught.value).splitlines()[0]
    assert "1 of 2 gold answers" in message
    assert (
        f"sample row1: no reward of the strict grader applies to an answer of kind {kind!r}"
        in message
    )
    assert "math, choice, choices" in message


def test_vlrft_check_refuses_a_kind_that_no_reward_of_content_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_kinds(tmp_path, ("math", "7"), ("Math", "7"))
    options = [
        f"options.data={tmp_path / 'data.jsonl'}",
        "options.answer=custom",
        "options.kinds=kind",
    ]
    assert main(["check", "table", *options, "rewards={format: 1.0, math_answer: 1.0}"]) == 1
    shown = "".join(capsys.readouterr())
    assert "train: 1 of 2 gold answers earn full marks" in shown
    assert "answer of kind 'Math'" in shown


def test_preparing_without_rewards_notes_the_kinds_that_only_rewards_of_one_s_own_could_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_kinds(tmp_path, ("math", "7"), ("Math", "7"), ("spam", "x"), ("Math", "8"))
    command = ["data", "prepare", "table", "--split", "train", "options.answer=custom"]
    command += [f"options.data={tmp_path / 'data.jsonl'}", "options.kinds=kind"]
    assert main([*command, "--out", str(tmp_path / "unnamed")]) == 0
    shown = capsys.readouterr().out
    assert "train: 4 rows" in shown
    assert "3 rows have a kind that no shipped reward reads: 'Math' (2), 'spam' (1);" in shown
    assert "math, choice, choices" in shown
    named = ["rewards={math_answer: 1.0}", "--out", str(tmp_path / "named")]
    assert main([*command, *named]) == 0
    shown = capsys.readouterr().out
    assert "3 left out" in shown
    assert "no shipped reward" not in shown


def test_white_space_around_a_kind_is_removed(tmp_path: Path) -> None:
    loaded = load_kinds(tmp_path, (" math ", "7"), ("choice\n", "B"))
    assert [s.tags["answer"] for s in loaded.samples] == ["math", "choice"]
    assert check_gold_answers(loaded) is loaded


def test_the_form_alone_is_never_the_strict_grade(tmp_path: Path) -> None:
    loaded = load_kinds(tmp_path, ("math", "7"))
    assert loaded.task.graders[STRICT] == ("math_answer", "choice", "temporal_iou")
    wrong = "<think></think><answer>8</answer>"
    assert loaded.graders.grade(STRICT, wrong, loaded.samples[0]) == 0.0
    formal = load_kinds(tmp_path, ("math", "7"), rewards=("format", "trajectory.form", "length"))
    with pytest.raises(ConfigError, match=r"no rewards of its own"):
        check_gold_answers(formal)


def test_the_known_kinds_are_those_that_shipped_rewards_read() -> None:
    read = {
        kind
        for file in (ROOT / "rewards").glob("*.py")
        for kind in re.findall(r'expects\(\s*sample, "(\w+)"', file.read_text("utf-8"))
    }
    assert read == set(KINDS)


def test_the_page_names_every_known_kind() -> None:
    page = (ROOT / "docs/howto/own_data.md").read_text("utf-8")
    named = page.partition("The kinds of the shipped rewards are ")[2].partition(
        ", written exactly so"
    )[0]
    assert set(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", named))) - {"and"} == set(KINDS)
