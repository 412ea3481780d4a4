"""The products of the digits pack: the digits that a scene shows, gold answers with and without steps, options."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from vlrft.rewards.count import count
from vlrft.rewards.format import format as form
from vlrft.tasks.digits import task
from vlrft.tasks.digits.scans import SPLITS, scans_of

from tests.tasks.loaded import assert_gold_earns_all
from vlrft.rollout.gold import gold_text
from vlrft.schema import Sample

PRODUCTS = ("product", "product_steps")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {"subtasks": PRODUCTS},
    "three": {"subtasks": PRODUCTS, "factors": (3, 3), "scene_digits": (1, 3, 7)},
    "small": {"subtasks": PRODUCTS, "canvas": (56,), "sizes": (24, 28)},
}
settings = pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)


def scenes(split: str = "train", **options: Any) -> Sequence[Sample]:
    return task.load(split, task.options(**options))


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scan becomes a uniform patch whose brightness encodes its digit."""
    digits = {i: d for split in SPLITS for d, scans in scans_of(split).items() for i in scans}
    monkeypatch.setattr(
        "vlrft.tasks.digits.scans.scan", lambda i: Image.new("L", (8, 8), 20 * (digits[i] + 1))
    )


def digits_in_reading_order(sample: Sample) -> list[int]:
    """The digits of a scene of flat patches with at most one a quarter."""
    ink = np.asarray(sample.images[0].convert("L"))
    half = len(ink) // 2
    quarters = [ink[y : y + half, x : x + half] for y in (0, half) for x in (0, half)]
    return [int(quarter.max()) // 20 - 1 for quarter in quarters if quarter.any()]


@settings
@pytest.mark.usefixtures("flat")
def test_the_steps_are_the_digits_of_the_picture_in_reading_order(options: dict[str, Any]) -> None:
    fewest, most = task.options(**options).factors
    numbers = set[int]()
    for sample in scenes(**options)[:100]:
        digits = digits_in_reading_order(sample)
        assert sample.info["digits"] == digits
        assert sample.answer == math.prod(digits) % 10
        numbers.add(len(digits))
    assert numbers == set(range(fewest, most + 1))


@settings
def test_gold_answers_have_steps_where_the_question_asks_for_them(options: dict[str, Any]) -> None:
    samples = scenes(**options)[:40]
    assert_gold_earns_all("digits", samples)
    for sample in samples:
        text, question = gold_text(task, sample), sample.messages[0].content[1]
        asked = sample.tags["kind"] == "product_steps"
        assert text.startswith("<think>") == ("<think>" in str(question)) == asked


@pytest.mark.parametrize(
    ("digits", "steps"),
    [([3, 7, 6], "3*7=1*6=6"), ([0, 4], "0*4=0"), ([9, 9], "9*9=1"), ([5, 2, 7], "5*2=0*7=0")],
)
def test_steps_are_last_digits_of_running_products(digits: list[int], steps: str) -> None:
    sample = Sample(
        id="s",
        messages=(),
        answer=math.prod(digits) % 10,
        tags={"kind": "product_steps", "answer": "count"},
        info={"digits": digits},
    )
    assert task.gold(sample) == f"<think>{steps}</think><answer>{sample.answer}</answer>"


def test_both_questions_have_the_same_scenes() -> None:
    plain, steps = (scenes(subtasks=(kind,))[:20] for kind in PRODUCTS)
    for one, other in itertools.zip_longest(plain, steps):
        assert one.images[0].tobytes() == other.images[0].tobytes()
        assert (one.id, one.answer) == (other.id, other.answer)


@pytest.mark.parametrize(
    ("completion", "marks"),
    [
        ("<think>3*7=1*6=6</think><answer>6</answer>", (1.0, 1.0)),
        ("<think>it shows 3, 6 and 7</think>\n<answer> 6 </answer>", (1.0, 1.0)),
        ("<answer>6</answer>", (1.0, 1.0)),
        ("<think>3*7=1*6=6</think><answer>5</answer>", (0.0, 1.0)),
        ("<think>3*7=21*6=126</think><answer>126</answer>", (0.0, 1.0)),
        ("<think>3*7=1*6=6</think>6", (0.0, 0.0)),
        ("<think>3*7=1*6=6<answer>6</answer>", (1.0, 0.0)),
        ("<think><answer>6</answer></think>", (0.0, 0.0)),
        ("<answer>3*7*6=6</answer>", (0.0, 1.0)),
    ],
)
def test_only_the_answer_is_graded(completion: str, marks: tuple[float, float]) -> None:
    sample = Sample(
        id="s", messages=(), answer=6, tags={"answer": "count", "kind": "product_steps"}
    )
    assert (count(completion, sample), form(completion, sample)) == marks


@pytest.mark.parametrize("factors", [(1, 3), (3, 2), (2, 5)])
def test_numbers_of_digits_that_make_no_product_are_refused(factors: tuple[int, int]) -> None:
    options = TypeAdapter(task.options)
    options.validate_python({"factors": factors})  # no sub-task reads it
    with pytest.raises(ValidationError, match="from 2 to 4"):
        options.validate_python({"factors": factors, "subtasks": ["product"]})
