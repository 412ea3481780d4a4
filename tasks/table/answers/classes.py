"""Classes: the name of what a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlrft.data import Row
from vlrft.grading import class_key
from vlrft.schema import DataError

from ..entry import Entry
from ..kind import AnswerKind, Facts, Gold
from ._cells import read_text, show

LONGEST = 200  # characters of a name
LISTED = 50  # classes; a prompt does not list more


def parse(cell: Any) -> str:
    text = read_text(cell)
    if len(text) > LONGEST or "\n" in text:
        raise ValueError(f"the gold answer {show(text)} is too long for the name of a class")
    return text


def prepare(entries: Sequence[Entry], facts: Facts, label: str) -> Facts:
    """Numbers of classes need their names."""
    cells = [parse(e.answer) for e in entries if e.answer is not None and not _is_broken(e.answer)]
    if cells and all(map(_is_number, cells)) and not facts.classes:
        raise DataError(
            f"{label}: the classes are numbers ({', '.join(dict.fromkeys(cells[:5]))}): name them in the order of their "
            "numbers, options.classes=[cat, dog] or a text file with one a line"
        )
    return facts


def _is_broken(cell: Any) -> bool:
    try:
        parse(cell)
    except ValueError:
        return True
    return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def read(entry: Entry, facts: Facts) -> Gold:
    name, classes = parse(entry.answer), facts.classes
    if classes and name not in classes:
        if not _is_number(name) or int(name) >= len(classes):
            raise ValueError(f"the gold answer {show(name)} is none of the {len(classes)} classes")
        name = classes[int(name)]
    if not any(map(str.isalnum, name)):
        raise ValueError(f"the gold answer {show(name)} is not the name of a class")
    listed = {"classes": ", ".join(classes)} if 0 < len(classes) <= LISTED else {}
    return Gold(answer=name, tags={"answer": "choice"}, info=listed)


def prompt(row: Row) -> str:
    return "class_listed" if "classes" in row.info else "class"


KIND = AnswerKind(
    name="class",
    doc="the name of a class, or its number",
    parse=parse,
    read=read,
    rewards={"classname": 1.0, "format": 1.0},
    strict=("classname",),
    prompt=prompt,
    detail="class",
    columns=("class", "class_name", "category", "label_name"),
    question="What does the picture show?",
    prepare=prepare,
    closed=True,
    options=("classes",),
    key=class_key,
)
