"""An action on a screen: its kind, the point that it clicks, the text that it types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from vlrft.grading import expects, normalise_text, read_answer, read_json, why_no_answer
from vlrft.schema import DataError, Sample, Unreadable, explain_unreadable
from vlrft.vision.boxes import Box, is_box

__all__ = ["accuracy", "gui_action"]

POINTED = ("click", "long_press")  # actions that have a point
POINT_KEYS = ("coordinate", "point")
NEAR = 140.0  # pixels: a point is right within this distance of a gold point, exclusive
OVERLAP = 0.5  # F1 of the words of a text, from which on it is right

Point = tuple[float, float]


def _why(completion: str, sample: Sample) -> Unreadable | None:
    answer = read_answer(completion)
    if answer is None:
        return why_no_answer(completion)
    return None if _read(answer) is not None else Unreadable(why="no action in JSON")


@explain_unreadable(_why)
def gui_action(completion: str, sample: Sample) -> Mapping[str, float] | None:
    """Two scores, each 0.0 or 1.0: `action`, for the right kind of action, and `point`, for the right kind and, of a click, a
    point in the gold box. None when the gold answer is not an action (tag `answer`: gui_action).

    The answer tag holds one JSON object, `{"action": "click", "coordinate": [x, y]}` (or `point`), or a list of one. The
    gold answer is a mapping with `action` and, of a click, `box` [x1, y1, x2, y2], in the unit that the prompt asks for.
    Raises DataError for any other gold answer. Source: UI-R1 (arXiv 2503.21620; `grpo_json_action_coord.py`), whose parser
    takes the first action and the first `[x, y]` anywhere in the tag.
    """
    if not expects(sample, "gui_action"):
        return None
    kind, gold = _gold(sample)
    said = _read(read_answer(completion) or "")
    if said is None or said.get("action") != kind:
        return {"action": 0.0, "point": 0.0}
    return {"action": 1.0, "point": float(kind not in POINTED or _hits(said, gold, sample))}


@explain_unreadable(_why)
def accuracy(completion: str, sample: Sample) -> float | None:
    """GUI-R1's accuracy: 1.0 for the right kind of action with the right target, else 0.0; applies to what `gui_action`
    applies to.

    A click is right inside the gold `box`, or less than 140 pixels from the gold `point`; a gold `text` (typed, or the name
    of an app) is right where the F1 of the words, without case, is at least 0.5. GUI-R1's reward is `{gui_action.accuracy:
    0.8, format: 0.2}`. Source: GUI-R1 (arXiv 2504.10458; `verl/utils/reward_score/r1gui.py`).
    """
    if not expects(sample, "gui_action"):
        return None
    kind, gold = _gold(sample)
    said = _read(read_answer(completion) or "")
    if said is None or said.get("action") != kind:
        return 0.0
    if kind in POINTED:
        return float(_hits(said, gold, sample))
    if "text" in gold:
        return float(_word_f1(str(said.get("text", "")), str(gold["text"])) >= OVERLAP)
    return 1.0


def _read(answer: str) -> Mapping[str, Any] | None:
    value = read_json(answer)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) and isinstance(value.get("action"), str) else None


def _hits(said: Mapping[str, Any], gold: Mapping[str, Any], sample: Sample) -> bool:
    """Whether the said point is in the gold box, or near the gold point."""
    points = [_point(said[key]) for key in POINT_KEYS if key in said]
    if len(points) != 1 or points[0] is None:
        return False
    x, y = points[0]
    if "box" in gold:
        x1, y1, x2, y2 = _box(gold["box"], sample)
        return x1 <= x <= x2 and y1 <= y <= y2
    target = _point(gold.get("point"))
    if target is None:
        raise DataError(
            f"sample {sample.id}: gold answer {dict(gold)!r} of a click has neither a box nor a point"
        )
    return math.dist((x, y), target) < NEAR


def _point(value: Any) -> Point | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    if not all(type(v) in (int, float) and abs(v) < 1e9 for v in value):
        return None
    return float(value[0]), float(value[1])


def _box(value: Any, sample: Sample) -> Box:
    if not is_box(value):
        raise DataError(f"sample {sample.id}: {value!r} is not a box [x1, y1, x2, y2]")
    x1, y1, x2, y2 = map(float, value)
    return x1, y1, x2, y2


def _word_f1(said: str, gold: str) -> float:
    """The F1 of two sets of words; 1.0 for two empty ones."""
    one, other = set(normalise_text(said).split()), set(normalise_text(gold).split())
    if not one and not other:
        return 1.0
    return 2 * len(one & other) / (len(one) + len(other))


def _gold(sample: Sample) -> tuple[str, Mapping[str, Any]]:
    gold = sample.answer
    if isinstance(gold, Mapping) and isinstance(gold.get("action"), str):
        return gold["action"], gold
    raise DataError(
        f"sample {sample.id}: gold answer {gold!r} is not an action; use a mapping such as "
        "{'action': 'click', 'box': [x1, y1, x2, y2]}"
    )
