"""Options that were given and that nothing reads: those of other kinds of answers, and those of raw data where rows are prepared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vlrft.data import Row
from vlrft.schema.changed_settings import changed_settings
from vlrft.schema.errors import ConfigError
from vlrft.vision.box_options import BOUNDS

from .answers import kinds
from .kind import AnswerKind
from .options import Options

OF_PREPARED = ("data", "answer", "thought", "prompt", "system", "boxes", *BOUNDS)
"""Options that are read with prepared rows, too."""


def find_unread(kind: AnswerKind, options: Options) -> list[str]:
    """A line for each option that has a value and that answers of this kind do not read."""
    names = dict.fromkeys(name for other in kinds().values() for name in other.options)
    changed = changed_settings(options)
    lines = [
        f"options.{name}: has no effect with answer: {kind.name}; it is of answer: "
        + ", ".join(other.name for other in kinds().values() if name in other.options)
        for name in names
        if name not in kind.options and name in changed
    ]
    if options.boxes != "resized" and options.box_unit != "resized":
        lines += [
            f"options.{name}: has no effect without boxes: resized or box_unit: resized; leave it out, or set policy.{name} for "
            "the size of the images"
            for name in BOUNDS
            if name in changed
        ]
    return lines


def refuse_unread(rows: Iterable[Row], split: str, options: Options) -> Iterator[Row]:
    """The rows of a prepared split. Raises ConfigError for options that were read when they were prepared."""
    unread = [name for name in changed_settings(options) if name not in OF_PREPARED]
    if unread:
        listed = ", ".join(f"options.{name}" for name in unread)
        has = "have" if len(unread) > 1 else "has"
        raise ConfigError(
            [
                f"{options.data}: {listed}: {has} no effect on prepared data, whose rows are read already; leave "
                f"{'them' if len(unread) > 1 else 'it'} out, or prepare the data again with {'them' if len(unread) > 1 else 'it'}"
            ]
        )
    yield from rows
