"""Paths -> score of `trajectory`, against a slow copy of the formula."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from vlrft.rewards.trajectory import form, trajectory

from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

Path = Sequence[Sequence[float]]


def score(path: Path, gold: Path) -> float:
    text = f"<answer>{json.dumps(path)}</answer>"
    value = trajectory(text, sample("x", gold, answer="trajectory"))
    assert value is not None
    return value


def heading(points: Path, i: int) -> complex:
    """Points as complex numbers, directions as unit ones."""
    z = [complex(*p) for p in points]
    steps = [b - a for a, b in pairwise(z)]
    unit = [s / abs(s) if abs(s) > 1e-12 else 0j for s in steps]
    if not steps:
        return 0j
    if i in (0, len(z) - 1):
        return unit[0 if i == 0 else -1]
    middle = unit[i - 1] + unit[i]
    return middle / abs(middle) if abs(middle) > 1e-12 else unit[i - 1]


def step_length(points: Path, i: int) -> float:
    if len(points) < 2:
        return 0.0
    k = min(i, len(points) - 2)
    return math.dist(points[k], points[k + 1])


def cost(p: Path, q: Path, i: int, j: int, angle: float = 0.25, ratio: float = 0.1) -> float:
    u, v = heading(p, i), heading(q, j)
    turn = abs(math.remainder(math.atan2(u.imag, u.real) - math.atan2(v.imag, v.real), math.tau))
    a, b = step_length(p, i), step_length(q, j)
    a, b = (a, b) if min(a, b) > 1e-12 else (a + 1e-12, b + 1e-12)
    bend = angle * turn if abs(u) and abs(v) else 0.0
    return math.dist(p[i], q[j]) + bend + ratio * abs(math.log(a / b))


def couplings(m: int, n: int) -> list[list[tuple[int, int]]]:
    """Every coupling from both starts to both ends that goes forward."""
    if (m, n) == (1, 1):
        return [[(0, 0)]]
    last = [(m - 1, n), (m, n - 1), (m - 1, n - 1)]
    return [[*c, (m - 1, n - 1)] for a, b in last if a and b for c in couplings(a, b)]


def test_a_number_beyond_the_range_of_a_float_is_no_point() -> None:
    asked = sample("t", [[0.0, 0.0], [1.0, 1.0]])
    assert trajectory(f"<answer>[[1{'0' * 400}, 0.1]]</answer>", asked) == 0.0


@pytest.mark.parametrize("seed", range(30))
def test_the_score_is_that_of_the_best_of_all_couplings(seed: int) -> None:
    draw = random.Random(seed)
    grid = [0.0, 0.25, 0.5, 1.0]
    p, q = (
        [[draw.choice(grid), draw.choice(grid)] for _ in range(draw.randint(1, 5))]
        for _ in range(2)
    )
    worst = math.sqrt(2) + 0.25 * math.pi + 0.1 * math.log(10)
    distance = min(
        max(cost(p, q, i, j) for i, j in coupling) for coupling in couplings(len(p), len(q))
    )
    assert score(q, p) == pytest.approx(1 - min(1.0, distance / worst), rel=1e-12, abs=1e-7)


def test_paths_by_hand() -> None:
    line = [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
    assert score(line, line) == 1.0
    worst = math.sqrt(2) + 0.25 * math.pi + 0.1 * math.log(10)
    moved = [[0.0, 0.5], [0.5, 0.5], [1.0, 0.5]]
    assert score(moved, line) == pytest.approx(1 - 0.5 / worst)
    assert score(line[::-1], line[::-1]) == 1.0
    assert score(line[::-1], line) == pytest.approx(1 - (1 + 0.25 * math.pi) / worst)
    assert score([[2.0, -1.0]], [[1.0, 0.0]]) == 1.0  # beyond the edge


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>so</think> <answer>[[0, 0]]</answer>", 1.0),
        ('<think>so</think><answer>{"x": 1}</answer>', 1.0),
        ("<answer>[[0, 0]]</answer>", 0.0),
        ("<think>so <answer>[[0, 0]]</answer>", 0.0),
        ("<think>so</think><answer>left</answer>", 0.0),
        ("<think>so</think>", 0.0),
        ("", 0.0),
    ],
)
def test_the_form_is_a_thought_and_an_answer_in_json(text: str, value: float) -> None:
    assert form(text, sample("x", [[0.0, 0.0]], answer="trajectory")) == value


def test_the_form_begins_with_the_thinking_that_the_prompt_opened() -> None:
    path = [[0.0, 0.0]]
    text = "so</think> <answer>[[0, 0]]</answer>"
    assert form(text, sample("x", path, answer="trajectory", opened="<think>")) == 1.0
    assert form(text, sample("x", path, answer="trajectory")) == 0.0


def test_the_form_allows_text_around_the_tags_as_its_source_does() -> None:
    text = "x<think>so</think>y<answer>[[0, 0]]</answer>z"
    assert form(text, sample("x", [[0.0, 0.0]], answer="trajectory")) == 1.0


@pytest.mark.parametrize(
    "text", ["", "[]", "[[1]]", "[1, 2]", '[["a", 0]]', "[[true, 0]]", "[[0, NaN]]", "{}", "[[0,0]"]
)
def test_what_is_no_path_earns_nothing(text: str) -> None:
    gold = sample("x", [[0.0, 0.0]], answer="trajectory")
    assert trajectory(f"<answer>{text}</answer>", gold) == 0.0
    assert trajectory(f"<answer>{[[0, 0]] * 257}</answer>", gold) == 0.0
    assert trajectory("<answer>[[0, 0]]</answer>", sample("x", "a", answer="class")) is None
    with pytest.raises(DataError, match="is not a path"):
        trajectory(text, sample("x", [], answer="trajectory"))
