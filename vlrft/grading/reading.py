"""Reads the answer of a completion: the text of its answer tag, and in it a letter or a whole number.

All strict rewards share these rules. The answer is the text of exactly one `<answer>…</answer>` after the last
`</think>`; two tags, an unclosed tag or none are no answer. The whole text of the tag must be the answer: nothing is
searched for in prose, so an answer can neither hide among others nor be right by accident. Digits are ASCII digits.
Every function takes time linear in its text, returns None for text that it cannot read, and never raises.
"""

from __future__ import annotations

import re
import unicodedata

from vlrft.schema import Sample, Unreadable

MAX_ANSWER = 2000  # characters; a longer text is no answer
MAX_LIST = 20_000  # characters of a list of boxes: a picture may have a hundred objects

_INTEGER = re.compile(r"-?[0-9]{1,9}")
_HYPHENS = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")


def read_answer(completion: str, limit: int = MAX_ANSWER) -> str | None:
    """The text of the one answer tag after the thinking, stripped; None when there is not exactly one, or it is
    empty, or longer than `limit` characters."""
    response = completion.rpartition("</think>")[2]
    if response.count("<answer>") != 1 or response.count("</answer>") != 1:
        return None
    answer, closed, _ = response.partition("<answer>")[2].partition("</answer>")
    if not closed or len(answer) > limit:
        return None
    return answer.strip() or None


def why_no_answer(completion: str, limit: int = MAX_ANSWER) -> Unreadable | None:
    """Why `read_answer` reads nothing; None where it reads an answer."""
    if read_answer(completion, limit) is not None:
        return None
    if not completion.strip():
        return Unreadable(why="empty output")
    response = completion.rpartition("</think>")[2]
    opened, closed = response.count("<answer>"), response.count("</answer>")
    if opened > 1 or closed > 1:
        return Unreadable(why="several <answer> tags")
    if opened == closed == 1:
        _, _, answer = response.partition("<answer>")
        if "</answer>" in answer:
            empty = not answer.partition("</answer>")[0].strip()
            long = f"an answer of more than {limit:,} characters"
            return Unreadable(why="empty <answer> tag" if empty else long)
    if opened or closed:
        return Unreadable(why="<answer> tag not closed" if opened else "<answer> tag not opened")
    if "<answer>" in completion:
        return Unreadable(why="<answer> tag only in the thinking")
    return Unreadable(why="no <answer> tag")


def read_letter(text: str) -> str | None:
    """The letter of an option, in upper case: `B`, `(B)`, `b.`"""
    match = _LETTER.fullmatch(text.strip())
    return match[1].upper() if match else None


def read_integer(text: str) -> int | None:
    """A whole number of at most nine digits."""
    match = _INTEGER.fullmatch(text.strip())
    return int(match[0]) if match else None


def normalise_text(text: str) -> str:
    """Text in the form in which answers are compared: without case, each run of white space one space, each letter with its
    accents one sign."""
    return join_accents(" ".join(text.casefold().split()))


def join_accents(text: str) -> str:
    """The text with each letter and its accents as one sign (Unicode's NFC); names of files often have them apart. A text that is
    too long for an answer stays as it is: of many accents in a row, Unicode's order takes quadratic time."""
    joined = len(text) <= MAX_ANSWER and not text.isascii()
    return unicodedata.normalize("NFC", text) if joined else text


def class_key(name: str) -> str:
    """The name of a class in the form in which names are compared: as a normalised text, without white space, underscores and the hyphens
    between two letters or digits. Another hyphen is a sign: `A-` is not `A`, nor `-1` `1`."""
    joined = "".join(c for c in normalise_text(name) if not c.isspace() and c != "_")
    return _HYPHENS.sub("", joined)


def with_opened(completion: str, sample: Sample) -> str:
    """The completion after what the prompt opened of it, such as `<think>` (tag `opened`)."""
    return sample.tags.get("opened", "") + completion


def expects(sample: Sample, kind: str) -> bool:
    """Whether the sample's gold answer is of this kind (`choice`, `count`, `box`, …), by its tag `answer`.

    True for every kind where a sample has no such tag: each reward that the task lists then applies.
    """
    return sample.tags.get("answer", kind) == kind
