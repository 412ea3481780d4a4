"""Every kind of gold answers is read, asked for in the form that its reward reads, and earns full marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tasks.table.tables import load, rows, text_of, write_rows, write_table
from vlrft.grading.metrics import reaches_threshold
from vlrft.rollout.gold import gold_text
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError
from vlrft.scoring.graders import STRICT

PIXELS = {"box_unit": "pixels", "box_corners": "xyxy"}
BOX = [20, 10, 120, 60]  # pixels of 200 x 100
THOUSANDTHS = [100, 100, 600, 600]
CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]], Any]] = {
    "a number": ("math", {}, rows([12, "3/4"]), "12"),
    "a float": ("math", {}, rows([12.0, 0.5]), "12"),
    "a tagged answer": ("math", {}, rows(["<think>so</think><answer> 7 </answer>", "8"]), "7"),
    "GSM8K's mark": ("math", {}, rows(["3 + 4 = 7\n#### 7", "#### 8"]), "7"),
    "a box of LaTeX": ("math", {}, rows([r"Thus \boxed{\frac12}.", "8"]), r"\frac12"),
    "several right answers": ("math", {}, rows([["1/2", "0.5"], ["3"]]), ["1/2", "0.5"]),
    "a count": ("count", {}, rows(["3", 4]), 3),
    "a count in a csv of floats": ("count", {}, rows([3.0, 4.0]), 3),
    "a letter": ("choice", {}, rows(["B", "A"], choices=["red", "blue"]), "B"),
    "a letter in brackets": ("choice", {}, rows(["(B)", "(A)"], choices=["red", "blue"]), "B"),
    "a choice's text": ("choice", {}, rows(["blue", "red"], choices=["red", "blue"]), "B"),
    "letter and text": ("choice", {}, rows(["B. blue", "A. red"], choices=["red", "blue"]), "B"),
    "a choice's number": ("choice", {}, rows([1, 0], choices=["red", "blue"]), "B"),
    "a choice's number from 1": (
        "choice",
        {"first_choice": 1},
        rows([2, 2], choices=["red", "blue", "green"]),
        "B",
    ),
    "numbers as choices": ("choice", {}, rows(["3", "2"], choices=["2", "3"]), "B"),
    "choices by letter": ("choice", {}, rows(["B", "A"], options={"B": "blue", "A": "red"}), "B"),
    "ARC's choices": (
        "choice",
        {},
        rows(["B", "A"], choices={"label": ["A", "B"], "text": ["red", "blue"]}),
        "B",
    ),
    "choices as JSON": ("choice", {}, rows(["B", "A"], choices='["red", "blue"]'), "B"),
    "choices as Python writes them": (
        "choice",
        {},
        rows(["B", "A"], options="['red', \"the sky's blue\"]"),
        "B",
    ),
    "a column for each choice": ("choice", {}, rows(["B", "A"], A="red", B="blue"), "B"),
    "choices by number": (
        "choice",
        {"first_choice": 1},
        rows(["text 2", 11], choices={str(k): f"text {k}" for k in range(1, 12)}),
        "B",
    ),
    "choices by names with numbers": (
        "choice",
        {},
        rows(["text 2", "text 11"], choices={f"option_{k}": f"text {k}" for k in range(1, 12)}),
        "B",
    ),
    "choices by names with letters": (
        "choice",
        {},
        rows(["B", "A"], choices={"choice_b": "blue", "choice_a": "red"}),
        "B",
    ),
    "columns of choices from 0": (
        "choice",
        {},
        rows(["blue", "red"], option_0="red", option_1="blue"),
        "B",
    ),
    "more than eight columns of choices": (
        "choice",
        {},
        rows(["J", "A"], **{letter: f"text {letter}" for letter in "ABCDEFGHIJ"}),
        "J",
    ),
    "a list of choices without the last ones": (
        "choice",
        {},
        rows(["B", "A"], choices=["red", "blue", None, " "]),
        "B",
    ),
    "choices that are no number": (
        "choice",
        {},
        rows(["B", "A"], A="red", B="blue", C=float("nan")),
        "B",
    ),
    "choices without the last ones": ("choice", {}, rows(["B", "A"], A="red", B="blue", C="", D=None), "B"),
    "a number that is its own choice's text": (
        "choice",
        {"first_choice": 0},
        rows(["1", "0"], choices=["0", "1"]),
        "B",
    ),
    "a number that is another choice's text": (
        "choice",
        {"first_choice": 0},
        rows(["1", "0"], choices=["3", "0", "1"]),
        "B",
    ),
    "a choice without a list": ("choice", {}, rows(["(b)", "A"]), "B"),
    "a class": ("class", {}, rows(["golden_retriever", "cat"], "label"), "golden_retriever"),
    "a class's number": ("class", {"classes": ["cat", "dog"]}, rows([1, 0], "label"), "dog"),
    "a text": ("text", {}, rows(["A red bus.", "Two dogs"]), "A red bus."),
    "texts": ("text", {}, rows([["red", "crimson"], ["blue"]], "answers"), ["red", "crimson"]),
    "a span": ("span", {}, rows([[1.5, 4], [0, 2]]), [1.5, 4.0]),
    "a span as a text": ("span", {}, rows(["1.5 - 4", "0 to 2"]), [1.5, 4.0]),
    "a span by name": ("span", {}, rows([{"start": 1, "end": 2}], "span"), [1.0, 2.0]),
    "a box": ("box", PIXELS, rows([BOX, [0, 0, 200, 100]], "bbox"), THOUSANDTHS),
    "a box as JSON": ("box", PIXELS, rows(["[20, 10, 120, 60]"]), THOUSANDTHS),
    "a box as JSON with a width": (
        "box",
        {"box_unit": "pixels", "box_corners": "xywh"},
        rows(["[20, 10, 100, 50]"]),
        THOUSANDTHS,
    ),
    "a box as JSON by its key, with a width": (
        "box",
        {"box_unit": "pixels", "box_corners": "xywh"},
        rows(['{"bbox": [20, 10, 100, 50]}'], "bbox"),
        THOUSANDTHS,
    ),
    "a box as JSON with its sides by name": (
        "box",
        {"box_unit": "pixels"},
        rows(['{"x": 20, "y": 10, "width": 100, "height": 50}'], "bbox"),
        THOUSANDTHS,
    ),
    "boxes as JSON with a width": (
        "boxes",
        {"box_unit": "pixels", "box_corners": "xywh"},
        rows([["[20, 10, 100, 50]"]], "boxes"),
        [THOUSANDTHS],
    ),
    "a box as written": ("box", PIXELS, rows(["<answer>(20,10),(120,60)</answer>"]), THOUSANDTHS),
    "a box by name": (
        "box",
        {"box_unit": "pixels"},
        rows([{"x": 20, "y": 10, "width": 100, "height": 50}], "bbox"),
        THOUSANDTHS,
    ),
    "a nested box": ("box", PIXELS, rows([[{"bbox_2d": BOX, "label": "bus"}]]), THOUSANDTHS),
    "boxes": ("boxes", PIXELS, rows([[BOX, [0, 0, 200, 100]]], "boxes"), [THOUSANDTHS, [0, 0, 1000, 1000]]),
    "boxes of objects": ("boxes", PIXELS, rows([{"bbox": [BOX]}], "objects"), [THOUSANDTHS]),
    "a box to point into": ("point", PIXELS, rows([BOX], "bbox"), THOUSANDTHS),
    "a nested point": ("point", {**PIXELS, "radius": 50}, rows([[[100, 50]]], "point"), [450, 450, 550, 550]),
    "a point": ("point", {**PIXELS, "radius": 50}, rows([[100, 50]], "point"), [450, 450, 550, 550]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_gold_answer_is_read_and_earns_full_marks(case: str, tmp_path: Path) -> None:
    kind, options, table, expected = CASES[case]
    loaded = load(write_table(tmp_path, table), answer=kind, **options)
    assert loaded.samples[0].answer == expected
    for sample in loaded.samples:
        text = gold_text(loaded.task, sample)
        assert reaches_threshold(loaded.graders.grade(STRICT, text, sample), 1.0)
        assert not reaches_threshold(loaded.graders.grade(STRICT, "", sample), 1.0)
        assert all(r.function(text, sample) == pytest.approx(1.0) for r in loaded.rewards)
    assert "between <answer> and </answer>" in text_of(loaded)
    assert "{" not in text_of(loaded)


UNITS = {
    ("pixels", "xyxy"): BOX,
    ("pixels", "xywh"): [20, 10, 100, 50],
    ("thousandths", "xyxy"): THOUSANDTHS,
    ("normalised", "xywh"): [0.1, 0.1, 0.5, 0.5],
    ("resized", "xyxy"): [19.6, 11.2, 117.6, 67.2],  # of 196 x 112 pixels
}


@pytest.mark.parametrize(("unit", "corners"), UNITS)
def test_one_box_in_every_convention(unit: str, corners: str, tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([UNITS[unit, corners]], "bbox"))
    loaded = load(table, answer="box", box_unit=unit, box_corners=corners)
    assert loaded.samples[0].answer == THOUSANDTHS


def test_boxes_are_asked_for_in_pixels_of_the_resized_picture(tmp_path: Path) -> None:
    loaded = load(
        write_table(tmp_path, rows([BOX], "bbox")), answer="box", boxes="resized", **PIXELS
    )
    (sample,) = loaded.samples
    assert "which is 196 pixels wide and 112 high" in text_of(loaded)
    assert gold_text(loaded.task, sample) == "<think></think><answer>(20,11),(118,67)</answer>"
    assert loaded.graders.grade(STRICT, gold_text(loaded.task, sample), sample) == 1.0
    assert loaded.resize is not None
    assert loaded.resize.max_pixels == 401408


def test_a_small_set_of_classes_is_listed_from_all_splits(tmp_path: Path) -> None:
    write_table(tmp_path, rows(["cat", "dog"], "label"), "train.jsonl")
    write_table(tmp_path, rows(["owl"], "label"), "test.jsonl")
    for split in ("train", "test"):
        assert text_of(load(tmp_path, split, answer="class")).endswith(": cat, dog, owl.")


def test_classes_of_all_splits_that_the_reward_takes_for_one_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path, rows(["A", "A-", "10-1"], "label"), "train.jsonl")
    write_table(tmp_path, rows(["B"], "label"), "test.jsonl")
    assert text_of(load(tmp_path, answer="class")).endswith(": 10-1, A, A-, B.")
    write_table(tmp_path, rows(["101", "B"], "label"), "test.jsonl")
    for split in ("train", "test"):
        with pytest.raises(DataError, match="the classes '10-1' and '101' are one name"):
            load(tmp_path, split, answer="class")


def test_a_class_needs_no_question(tmp_path: Path) -> None:
    table = [{"image": "0.png", "label": "cat"}]
    assert "What does the picture show?" in text_of(
        load(write_table(tmp_path, table), answer="class")
    )


def test_custom_answers_are_graded_by_the_user_s_own_rewards(tmp_path: Path) -> None:
    from vlrft.config import RewardConfig, TaskConfig
    from vlrft.rollout.task import load_task

    mine = tmp_path / "mine.py"
    mine.write_text(
        "def mine(completion, sample):\n    return float(sample.answer['a'] in completion)\n"
    )
    table = write_table(tmp_path, rows([{"a": "x"}]))
    config = TaskConfig(
        name="table",
        options={"data": str(table), "answer": "custom"},
        rewards={str(mine): RewardConfig()},
    )
    loaded = load_task(config, "train")
    assert loaded.graders.grade(STRICT, "x", loaded.samples[0]) == 1.0
    nameless = load(table, answer="custom")
    with pytest.raises(ConfigError, match=r"no rewards of its own.*task.rewards="):
        nameless.graders.grade(STRICT, "x", nameless.samples[0])


def test_a_column_says_what_each_custom_answer_is(tmp_path: Path) -> None:
    kinds = ["math", "choice", "box"]
    answers = ["7", "B", [0, 0, 10, 10]]
    table = [
        {"question": "q?", "answer": a, "kind": k} for a, k in zip(answers, kinds, strict=True)
    ]
    data = write_rows(tmp_path / "data.jsonl", table)
    loaded = load(data, answer="custom", kinds="kind")
    assert [s.tags["answer"] for s in loaded.samples] == kinds
    assert [s.answer for s in loaded.samples] == answers
    with pytest.raises(ValueError, match=r"kinds: the answers are of one kind, math"):
        load(data, answer="math", kinds="kind")
    table[1]["kind"] = " "
    with pytest.raises(DataError) as caught:
        load(write_rows(tmp_path / "data.jsonl", table), answer="custom", kinds="kind")
    assert "no kind, which options.kinds names" in caught.value.defects[0]


def test_points_are_not_asked_for_in_pixels(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows([BOX], "bbox"))
    with pytest.raises(ConfigError, match=r"options.boxes: resized, but answer: point"):
        load(table, answer="point", boxes="resized", **PIXELS)


UNREADABLE: dict[str, tuple[str, dict[str, Any], list[Any], str]] = {
    "no number": ("count", {}, [3, 4, "many"], "'many' is not a whole number of at least 0"),
    "a list for math": ("math", {}, ["1", "2", [1, 2, 3, 4]], "for boxes use options.answer=box"),
    "an empty answer": ("math", {}, ["1", "2", "<answer></answer>"], "the gold answer is empty"),
    "a missing answer": ("math", {}, ["1", "2", None], "no answer, which is the gold answer"),
    "not a number": ("math", {}, ["1", "2", float("inf")], "is no number"),
    "an explanation": ("class", {}, ["cat", "dog", "x" * 300], "too long for the name of a class"),
    "no box": ("box", PIXELS, [BOX, BOX, [1, 2, 3]], "[1, 2, 3] is no box; expected four numbers"),
    "a box outside": (
        "box",
        PIXELS,
        [BOX, BOX, [20, 10, 420, 60]],
        "[20.0, 10.0, 420.0, 60.0] in pixels (xyxy) leaves the picture of 200 × 100 pixels",
    ),
    "an inverted box": ("box", PIXELS, [BOX, BOX, [120, 60, 20, 10]], "is inverted or has no area"),
    "a point without a radius": ("point", PIXELS, [BOX, BOX, [5, 5]], "such as options.radius=25"),
    "no list of boxes": ("boxes", PIXELS, [[BOX], [BOX], BOX], "is no list of boxes"),
    "no span": ("span", {}, [[1, 2], [1, 2], [4, 2]], "is no span of seconds"),
    "no word": ("text", {}, ["a", "b", "!"], "with a word in it"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_gold_answer_that_cannot_be_read_is_a_defect_of_its_row(
    case: str, tmp_path: Path
) -> None:
    kind, options, answers, message = UNREADABLE[case]
    with pytest.raises(DataError) as caught:
        load(write_table(tmp_path, rows(answers)), answer=kind, **options)
    (defect,) = caught.value.defects
    assert defect.startswith("train/2 (")
    assert message in defect
    assert "\n" not in str(caught.value)


CHOICES: dict[str, tuple[list[Any], Any, str]] = {
    "none of them": (["A", "B", "green"], ["red", "blue"], "'green' is none of the choices"),
    "letter of one, text of another": (
        ["red", "red", "A"],
        ["B", "A", "red"],
        "may be (A) B or (B) A",
    ),
    "a text that is there twice": (["A", "B", "red"], ["red", "red"], "may be (A) red or (B) red"),
    "number of one, text of another": (
        ["red", "0", "2"],
        ["3", "red", "4", "2"],
        "'2' may be (C) 4 or (D) 2; write its letter and text, such as 'C. 4'",
    ),
    "a letter that is left out": (
        ["A", "A", "C"],
        {"A": "red", "C": "blue", "D": "green"},
        "the choices A, C, D leave one out before C",
    ),
    "a number that is left out": (
        ["red", "red", "2"],
        {"0": "red", "2": "blue", "3": "green"},
        "the choices 0, 2, 3 leave one out before 2",
    ),
    "a letter without a text": (
        ["A", "A", "C"],
        {"A": "red", "B": None, "C": "blue"},
        "the choice B is empty, but C is not",
    ),
    "a number after a name that is left out": (
        ["red", "red", "blue"],
        {"option_1": "red", "option_3": "blue"},
        "the choices option_1, option_3 leave one out before option_3",
    ),
    "a choice of a list without a text": (
        ["A", "A", "C"],
        ["red", None, "blue"],
        "the choice 2 is empty, but 3 is not",
    ),
    "one choice": (["A", "A", "A"], ["red"], "1 choices; a question has 2 to 26"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_gold_choice_that_is_not_one_of_the_choices_is_a_defect(
    case: str, tmp_path: Path
) -> None:
    answers, choices, message = CHOICES[case]
    with pytest.raises(DataError) as caught:
        load(write_table(tmp_path, rows(answers, choices=choices)), answer="choice")
    assert message in caught.value.defects[-1]


def test_an_empty_choice_before_another_one_is_a_defect(tmp_path: Path) -> None:
    """A gold C would be the fourth column otherwise."""
    table = [*rows(["B"], A="red", B="blue", C="green"), *rows(["C"], A="red", B=" ", C="blue")]
    with pytest.raises(DataError) as caught:
        load(write_table(tmp_path, table), answer="choice")
    assert "the choice B is empty, but C is not" in caught.value.defects[-1]


def test_a_gold_choice_with_its_letter_and_text_is_never_ambiguous(tmp_path: Path) -> None:
    table = rows(["red", "0", "C. 4"], choices=["3", "red", "4", "2"])
    loaded = load(write_table(tmp_path, table), answer="choice")
    assert [sample.answer for sample in loaded.samples] == ["B", "A", "C"]


def test_choices_of_a_column_that_is_not_there_are_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows(["B", "A"], A="red", B="blue", C=None))
    assert len(load(table, answer="choice", choices=["A", "B", "C"]).samples) == 2
    with pytest.raises(DataError, match=r"options.choices: no column 'E'; columns are image"):
        load(table, answer="choice", choices=["A", "B", "E"])


@pytest.mark.parametrize(
    "cells",
    [
        {"choices": ["red", "blue", None, " "]},
        {"choices": {"option_1": "red", "option_2": "blue", "option_3": None}},
        {"A": "red", "B": "blue", "C": float("nan"), "D": None},
    ],
)
def test_empty_choices_at_the_end_are_none(cells: dict[str, Any], tmp_path: Path) -> None:
    (sample,) = load(write_table(tmp_path, rows(["B"], **cells)), answer="choice").samples
    assert sample.tags["options"] == "red\nblue"
