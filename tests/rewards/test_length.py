"""Completion -> score of the rewards of length."""

from __future__ import annotations

import math

import pytest
from vlrft.rewards.length import cosine, curriculum, length, open_rs_cosine
from vlrft.rewards.math_answer import open_r1

from vlrft.schema import DataError, Sample
from vlrft.testing.small_policies import sample

HOSTILE = ["<answer>" * 12_500, "10**10**10" * 10_000, "\ud800\x00\u202e" * 30_000, "{" * 100_000]


@pytest.mark.parametrize(
    ("characters", "score"),
    [(0, 0.0), (1, 0.0), (4000, 0.0), (4250, -0.25), (4500, -0.5), (5000, -1.0), (100_000, -1.0)],
)
def test_the_over_long_penalty(characters: int, score: float) -> None:
    assert length("é" * characters, sample("any")) == score


@pytest.mark.parametrize(
    ("characters", "score"), [(0, 0.0), (100, 0.0), (105, -0.2), (125, -1.0), (126, -1.0)]
)
def test_the_over_long_penalty_of_a_budget(characters: int, score: float) -> None:
    assert length("x" * characters, sample("any", length_budget="100")) == pytest.approx(score)


@pytest.mark.parametrize(
    ("characters", "score"),
    [(0, 0.0), (1000, -0.14644660940672627), (2000, -0.5), (4000, -1.0), (8000, -1.0)],
)
def test_the_cosine_penalty(characters: int, score: float) -> None:
    assert cosine("x" * characters, sample("any")) == pytest.approx(score, rel=1e-12)


def test_the_cosine_penalty_of_a_budget_never_rises() -> None:
    asked = sample("any", length_budget="40")
    penalties = [cosine("x" * n, asked) for n in range(200)]
    assert penalties == sorted(penalties, reverse=True)
    assert penalties[20] == pytest.approx(-0.5)
    assert set(penalties[40:]) == {-1.0}


@pytest.mark.parametrize(
    ("progress", "budget"),
    [(0.0, 1000), (0.24, 1000), (0.25, 700), (0.5, 490), (0.99, 343), (1.0, 343)],
)
def test_a_curriculum_pays_most_at_a_budget_that_shrinks(progress: float, budget: int) -> None:
    asked = sample("any", length_budget="1000")
    shares = (0, 0.25, 1, 1.5, 2, 300)
    paid = [curriculum("é" * int(share * budget), asked, progress) for share in shares]
    assert paid == pytest.approx([0.0, 0.25, 1.0, 0.5, 0.0, 0.0], abs=0.01)
    assert curriculum("é" * budget, asked, progress) == pytest.approx(1.0)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_earn_nothing(text: str) -> None:
    assert length(text, sample("any")) == cosine(text, sample("any")) == -1.0


@pytest.mark.parametrize(
    "budget", ["", "0", "-5", "4e3", "12.5", "many", "４０００", "1" * 10, "010"]
)
def test_an_unreadable_budget_raises(budget: str) -> None:
    asked = sample("long", "7", length_budget=budget)
    for reward in (length, cosine, curriculum, open_rs_cosine):
        with pytest.raises(DataError, match=r"sample long: tag length_budget .* from 1 to"):
            reward("x", asked)


def padded(answer: str, characters: int) -> str:
    return answer.rjust(characters)


SEVEN = sample("seven", "7", answer="math")


@pytest.mark.parametrize(
    ("characters", "right", "wrong"),
    [
        (20, 0.75 + 0.25 * math.cos(0.02 * math.pi), -0.25 + 0.25 * math.cos(0.02 * math.pi)),
        (500, 0.75, -0.25),
        (1000, 0.5, -0.5),
        (2000, 1.0, 0.0),  # the defect: it rises again
        (3000, 0.5, -0.5),
    ],
)
def test_the_length_reward_of_open_rs(characters: int, right: float, wrong: float) -> None:
    pytest.importorskip("math_verify")
    for answer, score in (("\\boxed{7}", right), ("\\boxed{8}", wrong), ("nothing", wrong)):
        assert open_rs_cosine(padded(answer, characters), SEVEN) == pytest.approx(score, rel=1e-12)


def test_open_rs_with_an_empty_completion_or_a_budget() -> None:
    pytest.importorskip("math_verify")
    asked = sample("seven", "7", length_budget="3584")
    assert open_rs_cosine("", asked) == 0.0
    assert open_rs_cosine(padded("\\boxed{7}", 3584), asked) == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["", "no", "x" * 1000])
def test_open_rs_gives_full_marks_where_the_solution_cannot_be_read(text: str) -> None:
    pytest.importorskip("math_verify")
    asked = Sample(id="bare", messages=(), answer="7", info={"solution": "seven"})
    assert open_rs_cosine(text, asked) == 1.0


def test_open_rs_does_not_open_a_box_between_dollar_signs() -> None:
    """The length reward's setting of math-verify leaves the unit inside, where the accuracy reward removes it."""
    pytest.importorskip("math_verify")
    for answer, right in ((r"$\boxed{7\text{ cm}}$", False), (r"$\boxed{7}$", True)):
        reward = open_rs_cosine(answer, SEVEN)
        assert reward is not None
        assert (reward > 0.5) is right
        assert open_r1(answer, SEVEN) == 1.0


@pytest.mark.parametrize("text", HOSTILE)
def test_open_rs_never_pays_hostile_texts(text: str) -> None:
    pytest.importorskip("math_verify")
    reward = open_rs_cosine(text, SEVEN)
    assert reward is not None
    assert reward <= 0.0


def test_open_rs_applies_to_mathematics_only() -> None:
    assert open_rs_cosine("\\boxed{7}", sample("letter", "A", answer="choice")) is None
    with pytest.raises(DataError, match="sample gold: gold answer"):
        open_rs_cosine("\\boxed{7}", sample("gold", None))
