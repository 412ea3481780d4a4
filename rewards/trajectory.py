"""A path of points in the image, by its largest difference from the gold path in place, direction and length of steps."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from vlrft.grading import MAX_LIST, expects, read_answer, read_json, with_opened
from vlrft.schema import DataError, Sample, no_grader

__all__ = ["form", "trajectory"]

ANGLE, RATIO = (
    0.25,
    0.10,
)  # weights of a difference in direction (radians) and in length (of logarithms)
WORST = math.sqrt(2) + ANGLE * math.pi + RATIO * math.log(10)
MOST_POINTS = 256  # the work grows as the product of both paths
TINY = 1e-12

Point = tuple[float, float]


def trajectory(completion: str, sample: Sample) -> float | None:
    """1 − min(1, D / (√2 + 0.25 π + 0.1 ln 10)) in [0, 1], D the discrete Fréchet distance of the paths under the cost of a pair of points
    ‖p − q‖ + 0.25 · angle between their directions + 0.1 · |ln of the ratio of their steps|; None when the gold answer is
    not a path (tag `answer`: trajectory).

    The answer tag holds a JSON list of points `[x, y]` as shares of the width and the height; beyond 0 … 1 they count as on
    the edge, as in the released code. No list of points, none, or more than 256 earn 0.0. Raises DataError for such a gold
    path. Source: VLA-R1 (github.com/GigaAI-research/VLA-R1, RFT_training/train_utils/robot_bbox_traj_norm.py,
    `_os_discrete_frechet`), whose tag is `output` and whose whole reward is 0.9 of this and 0.1 of `trajectory.form`.
    """
    if not expects(sample, "trajectory"):
        return None
    gold = _points(sample.answer)
    if gold is None:
        raise DataError(
            f"sample {sample.id}: gold answer {sample.answer!r} is not a path; use a list of 1 to {MOST_POINTS} points [x, y]"
        )
    path = _points(read_json(read_answer(completion, MAX_LIST) or ""))
    return 0.0 if path is None else 1.0 - min(1.0, _frechet(gold, path) / WORST)


@no_grader
def form(completion: str, sample: Sample) -> float:
    """1.0 for a `<think>…</think>` and an answer tag with a list or an object in JSON; else 0.0. Applies to every sample.

    Text around and between the tags is allowed, as in the source, which searches for each of them. Where the prompt opens the
    thinking (tag `opened`), the completion continues it. Source: VLA-R1 (`_has_both_tags` of the same file), whose tag is `output`.
    """
    text = with_opened(completion, sample)
    thought = text.partition("<think>")[2].partition("</think>")
    return float(bool(thought[1]) and read_json(read_answer(text, MAX_LIST) or "") is not None)


def _points(value: Any) -> list[Point] | None:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_POINTS:
        return None
    if not all(isinstance(p, list | tuple) and len(p) == 2 and all(map(_finite, p)) for p in value):
        return None
    return [(min(max(float(x), 0.0), 1.0), min(max(float(y), 0.0), 1.0)) for x, y in value]


def _finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of a float
        return False


def _frechet(gold: list[Point], path: list[Point]) -> float:
    """The least, over couplings that go forward in both paths, of the largest cost of a pair."""
    ours, theirs = _steps(gold), _steps(path)
    before: list[float] = []  # of the gold point before this one, for each point of the path
    for i, p in enumerate(gold):
        row: list[float] = []
        for j, q in enumerate(path):
            reached = [*before[max(j - 1, 0) : j + 1], *row[-1:]]
            row.append(max(_cost(p, q, ours[i], theirs[j]), min(reached, default=0.0)))
        before = row
    return before[-1]


def _cost(p: Point, q: Point, one: tuple[Point, float], other: tuple[Point, float]) -> float:
    (u, length), (v, other_length) = one, other
    angle = 0.0
    if math.hypot(*u) > 0.5 and math.hypot(*v) > 0.5:  # directions are unit vectors, or zero
        angle = math.acos(min(max(u[0] * v[0] + u[1] * v[1], -1.0), 1.0))
    least = 0.0 if min(length, other_length) > TINY else TINY
    ratio = abs(math.log((length + least) / (other_length + least)))
    return math.dist(p, q) + ANGLE * angle + RATIO * ratio


def _steps(points: list[Point]) -> list[tuple[Point, float]]:
    """Of each point its direction, between its two steps, and the length of the step from it, of the last one to it."""
    steps = [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in pairwise(points)]
    if not steps:
        return [((0.0, 0.0), 0.0)]
    units = [_unit(step) for step in steps]
    turns = [_between(a, b) for a, b in pairwise(units)]
    lengths = [math.hypot(*step) for step in steps]
    return list(zip([units[0], *turns, units[-1]], [*lengths, lengths[-1]], strict=True))


def _between(a: Point, b: Point) -> Point:
    """The direction between two; that of the first where they are opposite."""
    middle = (a[0] + b[0], a[1] + b[1])
    return _unit(middle) if math.hypot(*middle) >= TINY else a


def _unit(step: Point) -> Point:
    length = math.hypot(*step)
    return (0.0, 0.0) if length < TINY else (step[0] / length, step[1] / length)
