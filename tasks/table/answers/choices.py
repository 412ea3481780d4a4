"""Choices: a letter, a number or the text of one of several choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

from vlrft.data import Row
from vlrft.grading import normalise_text, read_letter
from vlrft.schema import DataError

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_text, show

LONGEST = 500  # characters of a gold choice; a longer text is an explanation
_LETTERED = re.compile(r"\(?([A-Z])[).:]\s(.+)")  # (B) Paris


def parse(cell: Any) -> str:
    text = read_text(cell)
    if len(text) > LONGEST:
        raise ValueError(f"the gold answer {show(text)} is too long for a choice")
    return text


def prepare(entries: Sequence[Entry], facts: Facts, label: str) -> Facts:
    """Where golds are numbers of choices: whether the first choice has number 0 or 1, which the options say, unless only one
    of them fits the first rows."""
    numbers = [
        (n, len(e.choices)) for e in entries if (n := _number(e)) is not None and not _is_text(e)
    ]
    if not numbers or facts.options.first_choice is not None:
        return replace(facts, first_choice=facts.options.first_choice)
    fitting = [first for first in (0, 1) if all(first <= n < count + first for n, count in numbers)]
    if len(fitting) != 1:
        raise DataError(
            f"{label}: gold answers are numbers of choices ({numbers[0][0]} of {numbers[0][1]} choices): say which number "
            "the first choice has, options.first_choice=0 or 1"
        )
    return replace(facts, first_choice=fitting[0])


def _number(entry: Entry) -> int | None:
    """The gold answer as a number of a choice, which may be the text of one, too; None where it is no number."""
    if not entry.choices or isinstance(entry.answer, bool):
        return None
    try:
        text = parse(entry.answer)
    except ValueError:
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def _is_text(entry: Entry) -> bool:
    """Whether the gold answer, a number, is the text of a choice."""
    return normalise_text(parse(entry.answer)) in map(normalise_text, entry.choices)


def read(entry: Entry, facts: Facts) -> Gold:
    """The letter of the right choice; without a list of choices, the gold answer as it is."""
    text = parse(entry.answer)
    if not entry.choices:
        return Gold(answer=read_letter(text) or text, tags={"answer": "choice"})
    texts = [" ".join(choice.split()) for choice in entry.choices]
    if not 2 <= len(texts) <= len(ascii_uppercase):
        raise ValueError(f"{len(texts)} choices; a question has 2 to {len(ascii_uppercase)}")
    number, first = _number(entry), facts.options.first_choice
    if number is not None and first is not None and first <= number < len(texts) + first:
        indices = {number - first}  # the options say that a number is no text
    else:
        indices = _indices(text, texts, number, facts.first_choice)
    if not indices:
        raise ValueError(f"the gold answer {show(text)} is none of the choices {show(texts)}")
    if len(indices) > 1:
        fitting = [(ascii_uppercase[k], texts[k]) for k in sorted(indices)]
        raise ValueError(
            f"the gold answer {show(text)} may be {' or '.join(f'({letter}) {choice}' for letter, choice in fitting)}; write its "
            f"letter and text, such as {show('. '.join(fitting[0]))}, or where all are numbers of choices give options.first_choice"
        )
    letter = ascii_uppercase[indices.pop()]
    return Gold(answer=letter, tags={"answer": "choice", "options": "\n".join(texts)})


def _indices(text: str, texts: Sequence[str], number: int | None, first: int | None) -> set[int]:
    """The choices that a gold answer may be: by its text, by its letter, by both, by its number."""
    whole = normalise_text(text)
    found = {k for k, choice in enumerate(texts) if normalise_text(choice) == whole}
    letter = read_letter(text)
    if letter is not None:
        found.add(ascii_uppercase.index(letter))
    match = _LETTERED.fullmatch(text)
    if match is not None and not found:
        k = ascii_uppercase.index(match[1])
        if k < len(texts) and normalise_text(match[2]) == normalise_text(texts[k]):
            found.add(k)
    if number is not None and first is not None:
        found.add(number - first)
    return {k for k in found if 0 <= k < len(texts)}


def prompt(row: Row) -> str:
    return "choice" if "options" in row.tags else "choice_open"


KIND = AnswerKind(
    name="choice",
    doc="a letter, a number or the text of a choice",
    parse=parse,
    read=read,
    rewards={"choice": 1.0, "format": 1.0},
    strict=("choice",),
    prompt=prompt,
    columns=("correct_answer", "correct", "answer_index", "correct_choice"),
    prepare=prepare,
    lettered=True,
    options=("choices", "first_choice"),
)
