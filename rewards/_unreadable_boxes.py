"""Says why a strict reward reads no box in a completion, or none that lies in the picture."""

from __future__ import annotations

import re

from vlrft.grading import (
    MAX_LIST,
    read_answer,
    read_box,
    read_boxes,
    read_json_boxes,
    why_no_answer,
)
from vlrft.schema import Sample, Unreadable
from vlrft.vision.boxes import THOUSAND, Box, is_proper

PIXELS = ("boxes", "resized")  # the option with which packs ask for pixels of the resized picture
_NUMBER = r"\s*-?[0-9]{1,9}(?:\.[0-9]{1,9})?\s*"
# Linear: each attempt begins at a bracket and ends at the next one.
_FOUR = re.compile(
    rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]|\({_NUMBER},{_NUMBER}\)\s*,\s*\({_NUMBER},{_NUMBER}\)"
)


def why_no_box(completion: str, sample: Sample) -> Unreadable | None:
    """Why `boxes` reads no box, or none that lies in the picture; None where it reads one."""
    answer = read_answer(completion)
    box = None if answer is None else read_box(answer)
    if box is not None:
        return _why_improper(box, sample)
    if answer is not None and read_boxes(answer) is not None:
        return Unreadable(why="several boxes")
    return _why_unread(completion, answer) or Unreadable(why="no box")


def why_no_boxes(completion: str, sample: Sample) -> Unreadable | None:
    """Why `boxes.matched` reads no boxes; None where it reads at least one."""
    answer = read_answer(completion, MAX_LIST)
    if answer is not None and read_boxes(answer) is not None:
        return None
    return _why_unread(completion, answer) or Unreadable(why="a text that is no box among boxes")


def why_no_json_box(completion: str, sample: Sample) -> Unreadable | None:
    """Why `boxes.bbox_2d` reads no box; None where it reads one."""
    answer = read_answer(completion)
    if answer is None:
        return why_no_answer(completion)
    boxes = read_json_boxes(answer)
    return None if boxes is not None and len(boxes) == 1 else Unreadable(why="no box in JSON")


def _why_unread(completion: str, answer: str | None) -> Unreadable | None:
    if _FOUR.search(completion if answer is None else answer):
        place = "without an <answer> tag" if answer is None else "with other text in its tag"
        return Unreadable(why=f"box {place}")
    return why_no_answer(completion, MAX_LIST)


def _why_improper(box: Box, sample: Sample) -> Unreadable | None:
    framed = "frame" in sample.info
    width, height = sample.info["frame"] if framed else (THOUSAND, THOUSAND)
    if is_proper(box, width, height):
        shares = max(box) <= 1  # no box of a picture of more than a pixel
        return Unreadable(why="box from 0 to 1, in shares of the picture") if shares else None
    x1, y1, x2, y2 = box
    if not (x1 < x2 and y1 < y2):
        return Unreadable(why="box inverted or without area")
    if framed:
        return Unreadable(why="box that leaves the resized picture")
    return Unreadable(why="box outside of 0 to 1000", option=PIXELS)
