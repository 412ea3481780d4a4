"""Reads an answer out of a completion: the answer tag, then a letter, a whole number or a box.

One policy for every strict reward. A completion answers by exactly one `<answer>…</answer>`, and
that in what follows the last `</think>`; two answers, an unclosed tag or no tag are no answer.
Inside the tag the whole text must be the answer: nothing is searched for in prose, so an answer can
neither hide among others nor be met by accident. Digits are ASCII digits. Every function takes time
linear in its text, returns None for what it cannot read, and never raises.
"""

from __future__ import annotations

import re

from vlrft.schema import Sample
from vlrft.vision.boxes import Box

MAX_ANSWER = 2000  # characters; a longer answer is none

_NUMBER = r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_INTEGER = re.compile(r"-?[0-9]{1,9}")
_BOX = re.compile(rf"\s*\({_NUMBER},{_NUMBER}\)\s*,\s*\({_NUMBER},{_NUMBER}\)\s*")
_CORNER = r"\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)"
_SEARCHED_BOX = re.compile(rf"{_CORNER}\s*,\s*{_CORNER}")
_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")


def read_answer(completion: str) -> str | None:
    """The text of the one answer tag behind the thinking, stripped; None when there is not exactly
    one or it is empty."""
    spoken = completion.rpartition("</think>")[2]
    if spoken.count("<answer>") != 1 or spoken.count("</answer>") != 1:
        return None
    answer, closed, _ = spoken.partition("<answer>")[2].partition("</answer>")
    if not closed or len(answer) > MAX_ANSWER:
        return None
    return answer.strip() or None


def read_letter(text: str) -> str | None:
    """The letter of an option, upper case: `B`, `(B)`, `b.`"""
    found = _LETTER.fullmatch(text.strip())
    return found[1].upper() if found else None


def read_integer(text: str) -> int | None:
    """A whole number of at most nine digits."""
    found = _INTEGER.fullmatch(text.strip())
    return int(found[0]) if found else None


def read_box(text: str) -> Box | None:
    """A single box written `(x1,y1),(x2,y2)`; whether it is a sensible one is for `boxes` to
    say."""
    found = _BOX.fullmatch(text)
    if not found:
        return None
    x1, y1, x2, y2 = map(float, found.groups())
    return x1, y1, x2, y2


def search_box(text: str) -> Box | None:
    """The first `(x1,y1),(x2,y2)` of whole numbers anywhere in the text, as released graders find it;
    not for a reward."""
    found = _SEARCHED_BOX.search(text)
    if not found:
        return None
    x1, y1, x2, y2 = map(float, found.groups())
    return x1, y1, x2, y2


def plain(text: str) -> str:
    """Text as answers are compared: case and runs of white space do not matter."""
    return " ".join(text.casefold().split())


def expects(sample: Sample, kind: str) -> bool:
    """Whether the sample's gold answer is of this kind (`choice`, `count`, `box`, …), which its tag
    `answer` names.

    A sample without the tag leaves the matter to the task's list of rewards: each of them applies.
    """
    return sample.tags.get("answer", kind) == kind
