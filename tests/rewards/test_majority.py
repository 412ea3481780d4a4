"""Groups -> scores of `majority`."""

from __future__ import annotations

import math

import pytest
from vlrft.rewards.majority import majority

from vlrft.schema import Sample


class Unread:
    """A gold answer that may not be looked at."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("the gold answer was read")

    __hash__ = None  # type: ignore[assignment]


GROUP = Sample(id="g", messages=(), answer=Unread())


def said(*answers: str) -> list[str]:
    return [f"<answer>{answer}</answer>" for answer in answers]


def test_one_answer_is_worth_one() -> None:
    assert majority(said("7", "7", " 7 "), GROUP) == [1.0, 1.0, 1.0]
    assert majority([], GROUP) == []


def test_the_share_of_the_same_answer_less_the_spread_of_all() -> None:
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) / math.log(2)
    scores = majority(said("Cat", "cat", "dog", "cat"), GROUP)
    assert scores == pytest.approx(
        [0.75 - 0.75 * entropy] * 2 + [0.25 - 0.75 * entropy, 0.75 - 0.75 * entropy]
    )
    assert majority(said("a", "b"), GROUP) == pytest.approx([0.5 - 0.75] * 2)


def test_a_completion_without_an_answer_earns_nothing_and_counts_in_the_group() -> None:
    assert majority([*said("7", "7"), "7"], GROUP) == pytest.approx([2 / 3, 2 / 3, 0.0])
    assert majority(["7", "7"], GROUP) == [0.0, 0.0]


def test_to_say_nothing_never_earns_more_than_an_answer() -> None:
    """The entropy is subtracted from all of a group, so that an estimator that centres takes it away."""
    scores = majority([*said("a", "b", "c"), "no tag"], GROUP)
    assert scores == pytest.approx([0.25 - 0.75] * 3 + [-0.75])
    assert [score - scores[-1] for score in scores] == pytest.approx([0.25] * 3 + [0.0])


def test_order_does_not_matter() -> None:
    answers = said("a", "b", "a", "c", "b", "a")
    scores = dict(zip(answers, majority(answers, GROUP), strict=True))
    assert majority(answers[::-1], GROUP) == [scores[a] for a in answers[::-1]]
