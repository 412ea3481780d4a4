"""Graders of foreign code: their numbers are read as a reward's are, and their errors name the sample."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from vlrft.schema import DataError, RewardError, Sample
from vlrft.scoring.graders import Graders
from vlrft.testing.small_policies import sample


def graders(value: Any, extract: Any = str) -> Graders:
    def reward(completion: str, sample: Sample) -> Any:
        return value(completion) if callable(value) else value

    return Graders(rewards={"strict": (reward, "won")}, extract=extract)


@pytest.mark.parametrize(
    ("value", "grade"), [(1, 1.0), (True, 1.0), (np.float32(0.5), 0.5), (np.bool_(False), 0.0)]
)
def test_numbers_of_every_library_are_grades(value: Any, grade: float) -> None:
    assert graders(value).grade("strict", "", sample("a"), {"won": 0.25}) == grade


def test_the_first_reward_that_applies_counts() -> None:
    assert graders(None).grade("strict", "", sample("a"), {"won": np.float32(0.25)}) == 0.25


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "the strict grader gave nan, not a finite number"),
        ("1", "the strict grader gave a str, not a number"),
        (10**400, "the strict grader gave a number beyond"),
        (
            lambda c: sys.exit(3),
            "a reward of the strict grader raised SystemExit: 3 (test_graders.py:",
        ),
        (lambda c: c[5], "a reward of the strict grader raised IndexError: string index"),
    ],
)
def test_a_grade_that_is_no_finite_number_names_sample_and_grader(value: Any, problem: str) -> None:
    with pytest.raises(RewardError) as error:
        graders(value).grade("strict", "", sample("a"))
    assert str(error.value).startswith(f"sample a: {problem}")


def test_an_extract_that_raises_names_the_sample() -> None:
    with pytest.raises(DataError, match=r"sample a: the task's `extract` raised IndexError"):
        graders(1.0, extract=lambda text: text[7]).record(sample("a"), "short")
