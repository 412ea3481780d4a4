"""Counting: its raw forms, its prompts word for word, errors by hand, the published score."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.makers.counting import COUNTS, QUESTION, make
from tests.fixtures.qwen_tokenizer import (
    ASSISTANT,
    SYSTEM,
    USER,
    image_tokens,
    needs_qwen,
    rendered,
)
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_published_verdicts,
    assert_same,
    made,
    needs_shared,
    prepare,
    samples,
)
from vlrft.cli.main import main
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.scoring.graders import Graders

TEST_QUESTION = "How many different items are there in the image?"
OUTPUTS = SHARED / "counting/published_outputs_qwen2vl2b_grpo100.jsonl"
data = made(make)


@needs_qwen
def test_prompts_word_for_word(data: Path) -> None:
    train = samples("counting", "train", data / "hub", prompt="released")[0]
    assert rendered(train) == (
        f"{SYSTEM}{USER}{QUESTION}  Output the thinking process in <think> </think> and final answer "
        f"(number) in <answer> </answer> tags.{ASSISTANT}"
    )
    test = samples("counting", "test", data / "raw", prompt="released")[0]
    assert rendered(test) == (
        f"{SYSTEM}{USER}{TEST_QUESTION} First output the thinking process in <think> </think> and "
        f"final answer (number) in <answer> </answer> tags.{ASSISTANT}"
    )
    clean = samples("counting", "test", data / "raw")[0]
    assert rendered(clean) == (
        f"{SYSTEM}{USER}{TEST_QUESTION}\nThink first, between <think> and </think>. Then give the "
        f"number, in digits, between <answer> and </answer>.{ASSISTANT}"
    )
    assert image_tokens(train) == 9 * 6  # 240 x 160 pixels


def test_both_raw_forms_and_their_prepared_ones(data: Path, tmp_path: Path) -> None:
    for raw, split in (("hub", "train"), ("raw", "test")):
        found = samples("counting", split, data / raw)
        assert [s.answer for s in found] == list(COUNTS)
        assert_gold_earns_all("counting", found)
        assert prepare("counting", data / raw, tmp_path / raw) == {split: {}}
        assert_same(samples("counting", split, tmp_path / raw), found)


def test_rows_that_cannot_be_used_are_listed(data: Path, tmp_path: Path) -> None:
    found = prepare("counting", data / "broken", tmp_path / "out")
    assert found == {"train": {"train/1": "incomplete row", "train/2": "incomplete row"}}


def test_accuracy_and_mean_absolute_error_by_hand(data: Path) -> None:
    found = samples("counting", "test", data / "raw")  # 3, 9, 5, 0, 7
    said = ["<answer>3</answer>", "<answer>7</answer>", "<answer>6</answer>", "none", "seven"]
    graders = Graders.of(find_task("counting"))
    records = [graders.record(s, text) for s, text in zip(found, said, strict=True)]
    figures = compute_metrics(find_task("counting"), records).scores
    assert (figures["accuracy"].correct, figures["accuracy"].n) == (1, 5)
    off = figures["mean absolute error"]  # of the three that say a number: 0, 2, 1
    assert (off.score, off.n, off.share) == (1.0, 3, False)


@needs_shared
def test_the_official_grader_agrees_with_each_published_verdict() -> None:
    assert_published_verdicts(str(OUTPUTS), "count.r1v_eval", 165, 200)


@needs_shared
def test_published_outputs_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "counting", "--predictions", str(OUTPUTS)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("165/200  82.50 [") == 2
    assert "mean absolute error" in shown
