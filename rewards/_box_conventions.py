"""Says in which other convention a completion has a box, where a strict reward reads none."""

from __future__ import annotations

import re

from vlrft.grading import read_answer, read_box, why_no_answer
from vlrft.schema import Sample, Unreadable
from vlrft.vision.boxes import THOUSAND, Box, is_proper

from ._json_boxes import KEYS

PIXELS = ("boxes", "resized")  # the option with which packs ask for pixels of the resized picture
_NUMBER = r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
# Linear: each attempt begins at a bracket and ends at the next one.
_LIST = re.compile(rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]")
_PAIRS = re.compile(rf"\({_NUMBER},{_NUMBER}\)\s*,\s*\({_NUMBER},{_NUMBER}\)")
_TOKENS = ("<|box_start|>", "<|box_end|>")


def why_no_box(completion: str, sample: Sample) -> Unreadable | None:
    """Why `boxes` reads no box, or none that lies in the picture; None where it reads one. The rewards give nothing for a box
    in another convention: this only names the convention."""
    framed = "frame" in sample.info
    answer = read_answer(completion)
    box = None if answer is None else read_box(answer)
    if box is not None:
        width, height = sample.info["frame"] if framed else (THOUSAND, THOUSAND)
        return None if is_proper(box, width, height) else _why_improper(box, framed=framed)
    text = completion if answer is None else answer
    if reason := other_convention(text, framed=framed):
        return reason
    if _PAIRS.search(text):
        place = "without an <answer> tag" if answer is None else "with other text in its tag"
        return Unreadable(why=f"box {place}")
    return why_no_answer(completion) or Unreadable(why="no box")


def other_convention(text: str, *, framed: bool) -> Unreadable | None:
    """The other convention that the first box of a text is in; None where there is none. `framed`: whether the answer is
    asked for in pixels of the resized picture."""
    if any(token in text for token in _TOKENS):
        return Unreadable(why="box in another convention, <|box_start|>(x1,y1),(x2,y2)<|box_end|>")
    if match := _LIST.search(text):
        numbers = [float(number) for number in match.groups()]
        key = next((key for key in KEYS if f'"{key}"' in text), None)
        form = "[x1, y1, x2, y2]" if key is None else f'{{"{key}": [x1, y1, x2, y2]}}'
        return _other(form, numbers, framed=framed)
    return None


def _other(form: str, numbers: list[float], *, framed: bool) -> Unreadable:
    if max(map(abs, numbers)) <= 1:
        return Unreadable(why=f"box in another convention, {form} from 0 to 1")
    return Unreadable(why=f"box in another convention, {form}", option=None if framed else PIXELS)


def _why_improper(box: Box, *, framed: bool) -> Unreadable:
    x1, y1, x2, y2 = box
    if not (x1 < x2 and y1 < y2):
        return Unreadable(why="box inverted or without area")
    if framed:
        return Unreadable(why="box that leaves the resized picture")
    return Unreadable(why="box outside of 0 to 1000", option=PIXELS)
