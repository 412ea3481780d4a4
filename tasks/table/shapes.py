"""Formats that are columns of fixed names: which they are, and how a table with them is recognised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from vlrft.data import Defect
from vlrft.grading import read_answer
from vlrft.schema import DataError

from .answers import kinds
from .answers._cells import show
from .columns import cell_of
from .entry import Entry, Raw, Reading, Taken
from .formats._places import Places, find_choices, find_name
from .formats.columns import FORMAT as COLUMNS
from .formats.columns import read_entries
from .messages import MARK, is_conversation

if TYPE_CHECKING:
    from .options import Options

EXAMPLES = 20  # rows from which the kinds of their answers are detected


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A format whose rows have their question, gold answer and pictures in columns of these names. Where the options name a
    column themselves, the table is read as any other."""

    name: str
    doc: str
    question: str
    answer: str | None = None
    """None: the last reply of the conversation."""
    images: tuple[str, ...] = ("images", "image")
    """The first of these columns that is there."""
    shown_by: Callable[[Raw], str]
    """The sign in the first rows that they have this format; an empty string where they do not."""

    def recognises(self, raw: Raw) -> str:
        return self.shown_by(raw) if raw.head else ""

    def read(self, raw: Raw, options: Options) -> Reading:
        if options.question or options.answer_column or options.image:
            return COLUMNS.read(raw, options)
        places = self.places(raw, options)
        return self.reading(raw, options, places, partial(read_shape, raw, places))

    def places(self, raw: Raw, options: Options) -> Places:
        """Its columns. Raises DataError where the question's is missing."""
        if self.question not in raw.columns:
            raise DataError(
                f"{raw.source.label}: no column {self.question!r}, which {self.name} has; columns are "
                f"{', '.join(raw.columns[:16]) or 'none'}"
            )
        kind = kinds()[options.answer] if options.answer is not None else None
        return Places(
            question=self.question,
            answer=self.answer,
            images=tuple(name for name in self.images if name in raw.columns)[:1],
            choices=() if kind is None else find_choices(raw, options, kind),
            name=find_name(raw, options)[0],
        )

    def reading(
        self,
        raw: Raw,
        options: Options,
        places: Places,
        entries: Callable[[], Iterator[Entry | Defect]],
    ) -> Reading:
        """The reading of its columns. Raises DataError where the kind of its answers is not said."""
        place = self.answer or f"{self.question}, the last reply"
        if options.answer is None:
            raise unknown_kind(raw, place, entries())
        taken = [
            Taken(role="question", place=self.question, why=self.name),
            Taken(role="gold answer", place=place, why=self.name),
            *(Taken(role="pictures", place=column, why=self.name) for column in places.images),
            find_name(raw, options)[1],
        ]
        if places.choices:
            taken.append(Taken(role="choices", place=", ".join(places.choices), why="by its name"))
        return Reading(entries=entries, taken=tuple(taken))


def read_shape(raw: Raw, places: Places) -> Iterator[Entry | Defect]:
    """The entries, with the system message of a column of that name, with pictures in the first turn where no turn has a place
    for them, and with the answer of a gold completion that begins with its thought."""
    for entry in read_entries(raw, places):
        if isinstance(entry, Defect):
            yield entry
            continue
        context = list(entry.context)
        system = entry.columns.get("system")
        if (
            isinstance(system, str)
            and system.strip()
            and not any(r == "system" for r, _ in context)
        ):
            context.insert(0, ("system", system))
        texts = (entry.question, *(text for _, text in context))
        if entry.pictures and not any(MARK in text for text in texts):
            for k, (role, text) in enumerate(context):
                if role == "user":
                    context[k] = (role, MARK * len(entry.pictures) + text)
                    break
        answer = entry.answer
        if isinstance(answer, str) and "</think>" in answer:
            answer = read_answer(answer) or answer.rpartition("</think>")[2].strip()
        yield replace(entry, context=tuple(context), answer=answer)


def unknown_kind(raw: Raw, place: str, entries: Iterator[Entry | Defect]) -> DataError:
    """The error of data without `options.answer`: the kinds that read most of the first answers."""
    cells = [e.answer for e in islice(entries, EXAMPLES) if isinstance(e, Entry)]
    fitting = [
        name
        for name, kind in kinds().items()
        if kind.rewards and cells and 2 * sum(_reads(kind.parse, c) for c in cells) > len(cells)
    ]
    examples = ", ".join(dict.fromkeys(map(show, cells[:3])))
    return DataError(
        f"{raw.source.label}: say what the gold answers are: {place} ({examples}) can be options.answer="
        f"{' or '.join([*fitting, 'custom'])}"
    )


def _reads(parse: Callable[[Any], Any], cell: Any) -> bool:
    try:
        parse(cell)
    except ValueError:
        return False
    return True


def talks(raw: Raw, column: str, key: str) -> bool:
    """Whether most of the first cells of a column are conversations whose messages have this key: `role` or `from`."""
    cells = [cell_of(cells, column) for cells in raw.head]
    return 2 * sum(is_conversation(cell) and key in cell[0] for cell in cells) > len(cells)


def ends_with_reply(raw: Raw, column: str) -> bool:
    """Whether most conversations of a column end with a message of the assistant."""
    ends = [cell[-1] for row in raw.head if is_conversation(cell := cell_of(row, column))]
    replies = sum(m.get("role", m.get("from")) in ("assistant", "gpt", "model") for m in ends)
    return 2 * replies > len(ends)


def has(raw: Raw, *columns: str) -> bool:
    """Whether each column has a value in some row."""
    return all(any(cell_of(row, name) is not None for row in raw.head) for name in columns)
