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
    render,
)
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_published_verdicts,
    assert_same,
    dataset_folder,
    load_samples,
    needs_shared,
    prepare,
)
from vlrft.cli.main import main
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.scoring.graders import Graders

TEST_QUESTION = "How many different items are there in the image?"
OUTPUTS = SHARED / "counting/published_outputs_qwen2vl2b_grpo100.jsonl"
data = dataset_folder(make)


@needs_qwen
def test_prompts_word_for_word(data: Path) -> None:
    train = load_samples("counting", "train", data / "hub", prompt="released")[0]
    assert render(train) == (
        f"{SYSTEM}{USER}{QUESTION}  Output the thinking process in <think> </think> and final answer "
        f"(number) in <answer> </answer> tags.{ASSISTANT}"
    )
    test = load_samples("counting", "test", data / "raw", prompt="released")[0]
    assert render(test) == (
        f"{SYSTEM}{USER}{TEST_QUESTION} First output the thinking process in <think> </think> and "
        f"final answer (number) in <answer> </answer> tags.{ASSISTANT}"
    )
    clean = load_samples("counting", "test", data / "raw")[0]
    assert render(clean) == (
        f"{SYSTEM}{USER}{TEST_QUESTION}\nThink first, between <think> and </think>. Then give the "
        f"number, in digits, between <answer> and </answer>.{ASSISTANT}"
    )
    assert image_tokens(train) == 9 * 6  # 240 x 160 pixels


def test_raw_and_prepared_samples_are_equal(data: Path, tmp_path: Path) -> None:
    for raw, split in (("hub", "train"), ("raw", "test")):
        samples = load_samples("counting", split, data / raw)
        assert [s.answer for s in samples] == list(COUNTS)
        assert_gold_earns_all("counting", samples)
        assert prepare("counting", data / raw, tmp_path / raw) == {split: {}}
        assert_same(load_samples("counting", split, tmp_path / raw), samples)


def test_rows_that_cannot_be_used_are_listed(data: Path, tmp_path: Path) -> None:
    defects = prepare("counting", data / "broken", tmp_path / "out")
    assert defects == {"train": {"train/1": "incomplete row", "train/2": "incomplete row"}}


def test_accuracy_and_mean_absolute_error_by_hand(data: Path) -> None:
    samples = load_samples("counting", "test", data / "raw")  # 3, 9, 5, 0, 7
    answers = ["<answer>3</answer>", "<answer>7</answer>", "<answer>6</answer>", "none", "seven"]
    graders = Graders.of(find_task("counting"))
    records = [graders.record(s, text) for s, text in zip(samples, answers, strict=True)]
    metrics = compute_metrics(find_task("counting"), records).scores
    assert (metrics["accuracy"].correct, metrics["accuracy"].n) == (1, 5)
    error = metrics["mean absolute error"]  # of the three answers that are numbers: 0, 2, 1
    assert (error.score, error.n, error.share) == (1.0, 3, False)


@needs_shared
def test_the_official_grader_agrees_with_each_published_verdict() -> None:
    assert_published_verdicts(str(OUTPUTS), "count.r1v_eval", 165, 200)


@needs_shared
def test_published_outputs_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "counting", "--predictions", str(OUTPUTS)]) == 0
    output = capsys.readouterr().out
    assert output.count("165/200  82.50 [") == 2
    assert "mean absolute error" in output
