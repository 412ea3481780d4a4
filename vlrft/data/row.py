"""A row of a dataset in the form common to all packs: a question with its answer and pictures, before its prompt."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO, TypeVar

from vlrft.schema import DataError
from vlrft.schema.short_message import short_message

T = TypeVar("T")

MAX_ID = 1000  # characters
MAX_QUESTION = 1_000_000  # characters; more tokens than any model reads
MAX_SHOWN = 500  # characters of an id or a detail in a list of defects


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An encoded image (PNG, JPEG, …), read when it is needed."""

    name: str  # of the file, or of the row whose cell contains it
    read: Callable[[], bytes]
    embedded: bytes | None = field(default=None, repr=False)
    """Its content as the cell has it, where that is no name of a file."""

    @property
    def key(self) -> Hashable:
        """The identity of the picture, equal in all rows of a table that show it: its content where a cell contains it,
        otherwise its name."""
        return self.name if self.embedded is None else sha256(self.embedded).digest()


@dataclass(frozen=True, kw_only=True)
class Clip:
    """An encoded video, opened when it is needed."""

    name: str  # of the file
    open: Callable[[], BinaryIO]
    """The file, seekable, which the caller closes."""
    source: str = ""
    """The place that the name is relative to. Videos of the same name and source are one; without a source, those that `open` alike."""

    @property
    def key(self) -> Hashable:
        """The identity of the video, equal in all rows that name it."""
        return (self.source or self.open, self.name)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question. All fields but the pictures and the videos can be written as JSON."""

    id: str
    question: str
    answer: Any
    pictures: tuple[Picture, ...] = ()
    videos: tuple[Clip, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # read by the pack alone
    thought: str = ""
    """The reasoning that leads to the answer, for `Sample.thought`; empty where the data have none."""


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A row that is left out, with the reason. `intended`: left out by the dataset's own rules (a duplicate, a second
    image), so that loading may continue. The texts may come from broken data: they are shortened, and line breaks, other
    control characters and what is not Unicode are written as in Python (`\\n`, `\\udcff`)."""

    id: str
    reason: str  # the same words for the same kind of defect: reports count them
    detail: str = ""
    intended: bool = False

    @staticmethod
    def of(row_id: str, problem: str) -> Defect:
        """The defect of a row with a problem, `reason: detail`."""
        reason, _, detail = problem.partition(": ")
        return Defect(id=row_id, reason=reason, detail=detail)

    def __post_init__(self) -> None:
        for name in ("id", "detail"):
            object.__setattr__(self, name, _showable(str(getattr(self, name))))

    def __str__(self) -> str:
        return f"{self.id} ({self.reason}{f': {self.detail}' if self.detail else ''})"


def read_row(name: str, make: Callable[[], T]) -> T | Defect:
    """The row that `make` reads, or the defect of a row that it cannot read, whatever it raises: rows are read by code that
    meets any content. A `KeyError` is worded as a missing column."""
    try:
        return make()
    except DataError as e:
        detail = str(e)
    except KeyError as e:
        detail = f"no {e.args[0] if e.args else 'such column'}"
    except (TypeError, ValueError) as e:
        detail = str(e)
    except Exception as e:
        detail = short_message(e)
    return Defect(id=name, reason="incomplete row", detail=detail)


def find_text_problem(row: Row) -> str:
    """`reason: detail` of an id, a question, a thought, a tag or a gold answer that no model and no file can take, or an empty
    string: one that is too long, or has half a surrogate pair, which JSON may spell but no encoding has."""
    for name, text, most in (
        ("id", row.id, MAX_ID),
        ("question", row.question, MAX_QUESTION),
        ("thought", row.thought, MAX_QUESTION),
    ):
        if len(text) > most:
            return f"{name} too long: {len(text):,} characters, at most {most:,}"
    answers = row.answer if isinstance(row.answer, list | tuple) else [row.answer]
    texts = {
        "id": [row.id],
        "question": [row.question],
        "gold answer": answers,
        "thought": [row.thought],
        "tags": row.tags.values(),
    }
    for name, values in texts.items():
        for text in values:
            if isinstance(text, str) and not text.isascii():
                try:
                    text.encode()
                except UnicodeEncodeError as e:
                    code = ord(text[e.start])
                    return f"text not Unicode: {name}, character {e.start} is half a surrogate pair (U+{code:04X})"
    return ""


def _showable(text: str) -> str:
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} … ({len(text):,} characters)"
    return shown if shown.isprintable() else "".join(map(_visible, shown))


def _visible(character: str) -> str:
    controls = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return repr(character)[1:-1] if controls else character
