"""The neutral form of a row that every format gives, and the protocol of a format.

A format reads one published layout of rows (`formats/NAME.py`, which defines `FORMAT`) into entries: question, pictures and
gold answer as the file has them. What the answer means (a number, a letter, a box) is the answer kind's part, in `answers/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vlrft.data import Cells, Defect, Picture, PictureFinder, Source
from vlrft.schema.sample import Role

if TYPE_CHECKING:
    from .options import Options

BoxUnit = Literal["pixels", "resized", "thousandths", "normalised"]
BoxCorners = Literal["xyxy", "xywh"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A question with its gold answer, before its prompt is made."""

    id: str
    question: str = ""
    """Its text, with `<image>` at the place of each picture where the file says it; without, pictures come first."""
    context: tuple[tuple[Role, str], ...] = ()
    """Messages before the question, such as a system prompt or earlier turns: role and text."""
    pictures: tuple[Picture, ...] = ()
    size: tuple[int, int] | None = None
    """Width and height of the one picture in pixels, where the file says them; otherwise they are read from the picture."""
    answer: Any = None
    """The gold answer as the file has it: a text, a number, a list, a mapping."""
    choices: tuple[str, ...] = ()
    """The options of the question, from A on."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """By which an evaluation reports its metrics, such as {"category": "dog"}."""
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further values of the row, for the `{column}` placeholders of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One thing that was taken from the data, for `vlrft data show`."""

    role: str  # question, answer, pictures, choices, boxes, …
    place: str  # a column, such as reward_model.ground_truth, or a file
    why: str  # "the only candidate", "options.question"


@dataclass(frozen=True, kw_only=True)
class BoxForm:
    """How the boxes of a file are written."""

    unit: BoxUnit
    corners: BoxCorners


@dataclass(frozen=True, kw_only=True)
class Raw:
    """The data of one split, as a format meets them."""

    source: Source
    split: str | None
    """The split's name in the data (`train`, `val2017`); None where the data have no splits: all of them are meant."""
    name: str
    """The split's name in the run, with which the ids of rows begin."""
    finder: PictureFinder
    """Finds the picture of a cell, in `options.images` or next to the tables."""
    rows: Callable[[], Iterable[Cells]]
    """The rows of the split's tables; raises DataError where there is no table."""
    head: tuple[Cells, ...]
    """The first rows of the tables; () where there is no table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the first rows, in their order."""
        return tuple(dict.fromkeys(name for cells in self.head for name in cells))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The data of a split as a format reads them."""

    entries: Callable[[], Iterator[Entry | Defect]]
    """All rows, each time from the first one; a defect for each row that cannot be used."""
    taken: tuple[Taken, ...] = ()
    kind: str | None = None
    """The kind of its answers (`vlrft show table` lists them), where the format has only one."""
    boxes: BoxForm | None = None
    """How its boxes are written, where the format says so."""
    classes: tuple[str, ...] = ()
    """The names of its classes in the order of their numbers, where the format lists them."""


class Format(Protocol):
    """A published layout of rows."""

    @property
    def name(self) -> str:
        """As `options.format` says it."""
        ...

    @property
    def doc(self) -> str:
        """One line on it, for messages."""
        ...

    def recognises(self, raw: Raw) -> str:
        """The sign in the data that they have this format, such as "columns `conversations` with `from` and `value`"; an
        empty string where they do not. Looks at the names of files, the columns and the first rows, and never raises."""
        ...

    def read(self, raw: Raw, options: Options) -> Reading:
        """How the split is read. Raises DataError with one line for data of this format that cannot be read or are
        ambiguous: it names the candidates, and the option that chooses among them."""
        ...
