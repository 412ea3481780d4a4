"""One stored output as it is graded, and the columns of a table that its parts are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlrft.data import Cells
from vlrft.evaluation.outputs.stored_file import StoredFile


@dataclass(frozen=True, kw_only=True)
class OutputRow:
    """One output of a model."""

    number: int  # of the row in its file, from 0
    id: str
    output: str  # "" for an empty cell or null: no answer was given
    answer: Any = None  # the gold answer that the file states; None: it states none
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    truncated: bool = False  # cut at a limit on tokens, where the row says so

    @property
    def place(self) -> str:
        """The row in messages."""
        return f"row {self.number + 1}"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The columns that the command names; None: found by their names."""

    id: str | None = None
    output: str | None = None
    answer: str | None = None


@dataclass(frozen=True, kw_only=True)
class OutputFormat:
    """The form in which a tool stores outputs."""

    name: str  # for messages: "lmms-eval's --log_samples"
    recognises: Callable[[StoredFile], bool]
    read: Callable[[Cells, int], Sequence[OutputRow]]
    """Cells, number of the row -> its outputs, of which a row may have several. Raises ValueError or KeyError for cells that
    have none."""


def text_of(cell: object, column: str) -> str:
    """An output as text; "" for an empty cell. A list with a single text is that text.

    Raises ValueError for anything but a text or a number.
    """
    if isinstance(cell, list | tuple) and len(cell) == 1:
        cell = cell[0]
    if cell is None:
        return ""
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        raise ValueError(f"{column!r} is no text, but {str(cell)[:60]!r}")
    return str(cell)


def id_of(cell: object, column: str) -> str:
    """An id as text; a whole number as a spreadsheet stores it, `12.0`, is `12`. Raises ValueError for other cells."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, bool) or not isinstance(cell, str | int) or cell == "":
        raise ValueError(f"{column!r} is no id, but {str(cell)[:60]!r}")
    return str(cell)
