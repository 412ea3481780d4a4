"""Geometry3K: the hub's form and InterGPS' folders give the same questions; the prompt word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.makers.geometry3k import make
from tests.fixtures.qwen_tokenizer import (
    ASSISTANT,
    SYSTEM,
    USER,
    image_tokens,
    needs_qwen,
    render,
)
from tests.tasks.loaded import (
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    prepare,
)
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.schema import IMAGE, DataError
from vlrft.scoring.graders import Graders

SPLITS = ("train", "validation", "test")
data = dataset_folder(make)


@pytest.fixture(scope="module")
def ready(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """InterGPS' folders, prepared."""
    folder = tmp_path_factory.mktemp("prepared")
    defects = prepare("geometry3k", data / "raw", folder)
    assert defects == {"train": {"train/12": "incomplete row"}, "validation": {}, "test": {}}
    return folder


@needs_qwen
def test_prompts_word_for_word(data: Path) -> None:
    released = load_samples("geometry3k", "test", data / "hub", prompt="released")[0]
    assert render(released) == (
        f"{SYSTEM}{USER}Find $x$. You FIRST think about the reasoning process as an internal "
        "monologue and then provide the final answer. The reasoning process MUST BE enclosed within "
        "<think> </think> tags. The final answer MUST BE put in \\boxed{}." + ASSISTANT
    )
    clean = load_samples("geometry3k", "test", data / "hub")[0]
    assert render(clean) == (
        f"{SYSTEM}{USER}Find $x$.\nThink first, between <think> and </think>. Then give the final "
        f"answer between <answer> and </answer>.{ASSISTANT}"
    )


@needs_qwen
def test_image_tokens(data: Path) -> None:
    samples = load_samples("geometry3k", "test", data / "hub")
    assert [image_tokens(s) for s in samples] == [15 * 11, 10 * 10, 15 * 11]
    assert [image_tokens(s, 28 * 28 * 64) for s in samples] == [9 * 6, 8 * 8, 9 * 6]


def test_pictures_are_at_the_marks_of_the_question_or_before_it(tmp_path: Path) -> None:
    from tests.fixtures.makers._pictures import circle, encode
    from tests.fixtures.makers._tables import image_cell, write_parquet

    pictures = [image_cell(encode(circle((56, 56))))] * 2
    row = {"images": pictures, "problem": "Is <image> like <image>?", "answer": "1"}
    bare = {"images": pictures, "problem": "Are they alike?", "answer": "1"}
    write_parquet(tmp_path / "test.parquet", [row, bare])
    marked, unmarked = load_samples("geometry3k", "test", tmp_path)
    assert marked.messages[0].content[:4] == ("Is ", IMAGE, " like ", IMAGE)
    assert unmarked.messages[0].content[:2] == (IMAGE, IMAGE)


def test_folders_give_the_questions_of_the_hub(data: Path, ready: Path) -> None:
    for split in SPLITS:
        hub = load_samples("geometry3k", split, data / "hub")
        prepared = load_samples("geometry3k", split, ready)
        assert [(s.messages, s.answer) for s in prepared] == [(s.messages, s.answer) for s in hub]
        assert [s.images[0].tobytes() for s in prepared] == [s.images[0].tobytes() for s in hub]
    assert [s.answer for s in prepared] == ["6 \\sqrt { 3 }", "90", "31.2"]
    assert_same(load_samples("geometry3k", "test", data / "raw"), prepared)


def test_folders_are_read_in_numerical_order(ready: Path) -> None:
    assert [s.id for s in load_samples("geometry3k", "train", ready)] == [
        "train/9",
        "train/10",
        "train/11",
    ]


def test_a_letter_without_a_choice_stops_the_loading(data: Path) -> None:
    with pytest.raises(DataError, match=r"train/12 \(incomplete row: gold answer 'E' is none of 4"):
        load_samples("geometry3k", "train", data / "raw")


@pytest.mark.parametrize("prompt", ["clean", "released"])
def test_gold_answers_earn_full_marks(data: Path, prompt: str) -> None:
    for split in SPLITS:
        assert_gold_earns_all(
            "geometry3k", load_samples("geometry3k", split, data / "hub", prompt=prompt)
        )


def test_avg_and_pass_at_k_by_hand(data: Path) -> None:
    samples = load_samples("geometry3k", "test", data / "hub", prompt="released")
    graders = Graders.of(find_task("geometry3k"))
    right = [[True, True, False, True], [False] * 4, [False, True, False, False]]
    records = [
        graders.record(s, f"<think>…</think> \\boxed{{{s.answer if good else '0.5'}}}")
        for s, marks in zip(samples, right, strict=True)
        for good in marks
    ]
    metrics = compute_metrics(find_task("geometry3k"), records).graded["strict"]
    assert list(metrics) == ["avg@4", "pass@2", "pass@4"]
    assert (metrics["avg@4"].correct, metrics["avg@4"].n) == (4, 12)
    # 1 - C(1, 2) / C(4, 2) = 1; 0; 1 - C(3, 2) / C(4, 2) = 1/2
    assert metrics["pass@2"].score == pytest.approx((1 + 0 + 0.5) / 3, abs=1e-12)
    assert metrics["pass@4"].score == pytest.approx(2 / 3, abs=1e-12)


def test_the_released_grader_reads_the_box(data: Path) -> None:
    sample = load_samples("geometry3k", "test", data / "hub", prompt="released")[1]
    graders = Graders.of(find_task("geometry3k"))
    grades = {
        "<think>a</think> \\boxed{90}": 1.0,
        "<think>a</think> \\boxed{90^\\circ}": 1.0,
        "90": 0.0,
    }
    assert {text: graders.grade("official", text, sample) for text in grades} == grades


def test_the_released_grader_has_no_grade_where_the_prompt_asks_for_a_tag(data: Path) -> None:
    (_, sample, *_) = load_samples("geometry3k", "test", data / "hub")
    task = find_task("geometry3k")
    assert Graders.of(task).record(sample, gold_text(task, sample)).grades == {"strict": 1.0}
