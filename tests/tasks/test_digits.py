"""The digits pack: splits, scenes, gold answers, options and metrics."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from vlrft.rewards.boxes import boxes
from vlrft.rewards.choice import choice
from vlrft.rewards.count import count
from vlrft.rewards.format import format as form
from vlrft.tasks.digits import task
from vlrft.tasks.digits.options import SUBTASKS, Options
from vlrft.tasks.digits.scans import SPLITS, _scans, scans_of

from vlrft.rollout.gold import gold_text
from vlrft.schema import IMAGE, Record, Reward, Sample
from vlrft.schema.errors import PluginError
from vlrft.vision.boxes import rescale, round_box

REWARDS: dict[str, Reward] = {"choice": choice, "count": count, "boxes": boxes, "format": form}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "quickstart": {"sizes": (50, 56), "easy_count": True, "subtasks": ("classify", "count")},
    "grid": {"sizes": (28, 42), "grid": 14, "ordered": True, "distractors": (0, 1)},
    "mixed": {"canvas": (84, 112, 150), "sizes": (20, 40), "scene_digits": (0, 1, 7)},
}


def scenes(split: str = "train", **options: Any) -> Sequence[Sample]:
    return task.load(split, Options(**options))


def by_kind(samples: Sequence[Sample], kind: str, number: int = 40) -> list[Sample]:
    return list(itertools.islice((s for s in samples if s.tags["kind"] == kind), number))


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(PluginError, match=r"pip install 'vlrft\[digits\]'"):
        _scans.__wrapped__()


def test_the_scans_are_those_of_load_digits_which_is_not_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    images, labels = _scans.__wrapped__()
    assert labels == tuple(digits)
    grey = (pixels.reshape(-1, 8, 8) * (255 / 16)).round()
    assert all(
        np.array_equal(np.asarray(image), scan) for image, scan in zip(images, grey, strict=True)
    )


def test_every_scan_is_in_exactly_one_split() -> None:
    parts = [set(itertools.chain(*scans_of(split).values())) for split in SPLITS]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 1797
    assert all(len(scans_of(split)[digit]) >= 15 for split in SPLITS for digit in range(10))


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("split", SPLITS)
def test_gold_completions_earn_full_marks(split: str, options: dict[str, Any]) -> None:
    for sample in scenes(split, **options)[:60]:
        text = gold_text(task, sample)
        scores = {name: reward(text, sample) for name, reward in REWARDS.items()}
        applicable = {name: value for name, value in scores.items() if value is not None}
        assert set(task.rewards) == set(scores)
        assert list(applicable.values()) == [1.0, 1.0], sample.id


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_scenes_depend_on_split_index_and_options_only(options: dict[str, Any]) -> None:
    one, other = scenes(**options), scenes(**options)
    backwards = [other[i] for i in reversed(range(12))][::-1]
    for a, b in zip(one[:12], backwards, strict=True):
        assert (a.id, a.messages, a.answer, a.tags) == (b.id, b.messages, b.answer, b.tags)
        assert a.images[0].tobytes() == b.images[0].tobytes()
    elsewhere = scenes("test", **options)
    assert one[0].images[0].tobytes() != elsewhere[0].images[0].tobytes()


def test_a_scene_is_an_image_and_a_question() -> None:
    samples = scenes()
    assert len(samples) == 6000
    assert samples[-1].id == "digits/train/5999"
    assert [s.tags["kind"] for s in samples[:5]] == [*SUBTASKS[:4], "classify"]
    for sample in samples[:8]:
        (message,) = sample.messages
        picture, question = message.content
        assert picture is IMAGE
        assert sample.images[0].mode == "RGB"
        assert isinstance(question, str)
        assert "<answer>" in question
        assert "{" not in question
    with pytest.raises(IndexError):
        samples[6000]


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_the_ink_of_a_lone_digit_lies_in_its_gold_box(options: dict[str, Any]) -> None:
    lone = options | {"subtasks": ("ground",), "distractors": (0, 0)}
    for sample in by_kind(scenes(**lone), "ground"):
        image = sample.images[0]
        ink = np.asarray(image.convert("L"))
        x1, y1, x2, y2 = round_box(rescale(sample.answer, (1000, 1000), image.size))
        inside = ink[y1:y2, x1:x2]
        assert inside.sum() == ink.sum() > 0
        assert inside.shape[0] == inside.shape[1] <= Options(**options).sizes[1]
        assert np.ptp(np.nonzero(ink.sum(axis=1))[0]) > 0.5 * inside.shape[0]  # and fills it


def test_coordinates_are_multiples_of_the_grid() -> None:
    samples = by_kind(scenes(**SETTINGS["grid"]), "ground", 200)
    assert {v for s in samples for v in s.answer} <= {125 * i for i in range(9)}


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scan becomes a uniform patch whose brightness encodes its digit, so that a test can read a scene."""
    digits = {i: d for split in SPLITS for d, scans in scans_of(split).items() for i in scans}
    monkeypatch.setattr(
        "vlrft.tasks.digits.scans.scan", lambda i: Image.new("L", (8, 8), 20 * (digits[i] + 1))
    )


def digits_of(sample: Sample) -> dict[int, list[tuple[int, int, int, int]]]:
    """Digit -> the boxes of its copies, in pixels, in a scene of flat patches with at most one a quarter."""
    ink = np.asarray(sample.images[0].convert("L"))
    boxes: dict[int, list[tuple[int, int, int, int]]] = {}
    for x, y in itertools.product((0, 56), (0, 56)):
        rows, columns = np.nonzero(ink[y : y + 56, x : x + 56])
        if len(rows):
            box = (x + columns.min(), y + rows.min(), x + columns.max() + 1, y + rows.max() + 1)
            boxes.setdefault(int(ink[box[1], box[0]]) // 20 - 1, []).append(box)
    return boxes


def named_digits(sample: Sample) -> list[int]:
    """The digits that a question names."""
    question = sample.messages[0].content[1]
    assert isinstance(question, str)
    return [int(n) for n in re.findall(r"[0-9]+", question.partition("?")[0])]


@pytest.mark.usefixtures("flat")
def test_questions_and_answers_agree_with_the_picture() -> None:
    answers = set[object]()
    for sample in scenes()[:400]:
        digits = digits_of(sample)
        match sample.tags["kind"], named_digits(sample):
            case "classify", []:
                assert [str(d) for d in digits] == [sample.answer]
            case "count", [digit]:
                assert len(digits.get(digit, [])) == sample.answer
            case "relation", [one, other]:
                left = digits[one][0][0] < digits[other][0][0] - 20
                right = digits[one][0][0] - 20 > digits[other][0][0]
                assert (left, right) == (sample.answer == "A", sample.answer == "B")
            case "ground", [digit]:
                assert digits[digit] == [
                    round_box(rescale(sample.answer, (1000, 1000), (112, 112)))
                ]
                assert len(digits) > 1
            case other_question:
                pytest.fail(f"{other_question}")
        if sample.tags["kind"] != "ground":
            answers.add(sample.answer)
    assert answers == {*"0123456789", 0, 1, 2, 3, "A", "B"}


def test_ordered_relation_asks_for_the_smaller_digit_first() -> None:
    for sample in by_kind(scenes(subtasks=("relation",), ordered=True), "relation"):
        assert named_digits(sample) == sorted(named_digits(sample))


def test_easy_count_shows_as_many_digits_as_it_counts() -> None:
    for sample in by_kind(scenes(**SETTINGS["quickstart"]), "count"):
        ink = np.asarray(sample.images[0].convert("L"))
        quarters = [ink[y : y + 56, x : x + 56].any() for x in (0, 56) for y in (0, 56)]
        assert sum(quarters) == sample.answer >= 1


def test_hard_count_has_distractors_and_may_be_zero() -> None:
    samples = by_kind(scenes(distractors=(1, 2)), "count", 100)
    assert {s.answer for s in samples} == {0, 1, 2, 3}


def test_width_and_height_are_drawn_from_the_canvas_sizes() -> None:
    sizes = {s.images[0].size for s in scenes(canvas=(84, 112), sizes=(30, 40))[:40]}
    assert sizes == {(84, 84), (84, 112), (112, 84), (112, 112)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"foo": 1}, "foo"),
        ({"subtasks": ["clasify"]}, "classify"),
        ({"subtasks": []}, "subtasks is empty"),
        ({"sizes": [60, 80]}, "canvas 112 is too small"),
        ({"sizes": [30, 40], "grid": 50}, "no multiple of grid 50"),
        ({"sizes": [56, 44]}, "the smaller one of sizes comes first"),
        ({"digits": [1, 1]}, "digits must be two or more different"),
        ({"scene_digits": [3, 12]}, "allowed: from 0 to 9"),
        ({"scene_digits": [3]}, "scene_digits must be"),
        ({"distractors": [0, 9]}, "distractors up to 9"),
        ({"distractors": [2, 1]}, "distractors"),
        ({"max_count": 9}, "max_count 9: use 1 to 4"),
        ({"train": -1}, "allowed: at least 0"),
    ],
)
def test_options_that_make_no_scenes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(task.options).validate_python(options)


def test_metrics_of_an_evaluation() -> None:
    def record(name: str, kind: str, grade: float) -> Record:
        return Record(id=name, output="", grades={"strict": grade}, tags={"kind": kind})

    assert task.metrics is not None
    metrics = task.metrics(
        [
            record("a", "classify", 1.0),
            record("b", "classify", 0.0),
            record("c", "ground", 0.4),
            record("d", "ground", 0.6),
        ],
        "strict",
    )
    assert set(metrics) == {"classify", "ground"}
    assert metrics["classify"].values == (1.0, 0.0)
    assert metrics["classify"].threshold == 1.0
    assert metrics["ground"].values == (0.4, 0.6)
    assert metrics["ground"].threshold == 0.5
