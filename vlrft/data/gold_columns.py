"""The column of a table that has the gold answers, and what is odd about the choice of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlrft.data.cells import Cells

ANSWER_COLUMNS = ("solution", "ground_truth", "answer")
CHOICE_COLUMNS = ("choices", "options")
_ANSWER_TAG = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)
_LETTER = re.compile(r"\(?[A-H]\)?")


@dataclass
class GoldColumns:
    """Takes the gold answer of each row from the first of several columns that the row has, and remembers what a user should
    know of it. `guessed`: the pack did not name the columns."""

    columns: Sequence[str]
    guessed: bool
    rows: int = 0
    letters: Counter[str] = field(default_factory=Counter[str])
    """The column of choices -> rows with a letter as their gold answer."""
    rivals: dict[str, str] = field(default_factory=dict[str, str])
    """The column that was taken -> another that has a different answer in a row."""

    def take(self, cells: Cells) -> Any:
        """The gold answer, without its answer tag. Raises KeyError for a row that has none of the columns."""
        filled = [column for column in self.columns if cells.get(column) is not None]
        if not filled:
            raise KeyError(" or ".join(self.columns))
        gold = strip_answer_tag(cells[filled[0]])
        for column in filled[1:]:
            if str(strip_answer_tag(cells[column])) != str(gold):
                self.rivals.setdefault(filled[0], column)
        self.rows += 1
        choices = find_choices(cells)
        if choices and isinstance(gold, str) and _LETTER.fullmatch(gold.strip()):
            self.letters[choices] += 1
        return gold

    def notes(self) -> list[str]:
        """A line for each thing to know, once all rows are read."""
        lines = [
            f"the gold answers are those of the column {taken!r}, a guess: {other!r} has other ones"
            for taken, other in (self.rivals.items() if self.guessed else ())
        ]
        lines += [
            f"{count} of {self.rows} gold answers are letters of the options in the column {column!r}: only a question "
            "that lists its options can be answered with a letter"
            for column, count in self.letters.items()
        ]
        return lines


def find_choices(cells: Mapping[str, Any]) -> str:
    """The column that lists the options of a row; empty where none does."""
    lists = (c for c in CHOICE_COLUMNS if isinstance(cells.get(c), list | tuple))
    return next((column for column in lists if len(cells[column]) > 1), "")


def strip_answer_tag(gold: Any) -> Any:
    """The text inside `<answer> … </answer>` of a gold answer that is stored with its tag; anything else unchanged."""
    match = _ANSWER_TAG.fullmatch(gold) if isinstance(gold, str) else None
    return match[1].strip() if match else gold
