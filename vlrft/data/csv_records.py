"""The records of csv and tsv, with strict quotes: a quote that is not closed never makes a cell of the rows after it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, kw_only=True)
class BadQuotes:
    """A record whose quotes are wrong."""

    last: int  # its last line
    why: str


def csv_records(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | BadQuotes]]:
    """The first line of each record, from 1, and its cells. A record with wrong quotes ends where a lenient reader ends it, so
    that the further lines of its cells are not read as rows."""
    file = io.StringIO(text, newline="")
    strict = partial(csv.reader, delimiter=delimiter, strict=True)
    reader, before = strict(file), 0
    while True:
        start, line = file.tell(), before + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            file.seek(start)
            lenient = csv.reader(file, delimiter=delimiter)
            with suppress(csv.Error):  # NUL, before Python 3.11
                next(lenient)
            reader, before = strict(file), line + lenient.line_num
            yield line + 1, BadQuotes(last=before, why=_explain(e, delimiter))
        else:
            yield line + 1, cells


def _explain(error: csv.Error, delimiter: str) -> str:
    kind = "tsv" if delimiter == "\t" else "csv"
    reason = str(error).replace("\t", "\\t")
    return (
        f"not {kind} ({reason}): a cell that begins with a quote ends with the next single one; write a quote within it twice, "
        '"say ""hi"" now"'
    )
