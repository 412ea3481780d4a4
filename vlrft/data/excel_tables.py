"""Rows of xlsx tables: the first sheet, whose first row names the columns. Read with openpyxl, of the extra `excel`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from vlrft.data.cells import Cells, UnreadableRows
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

MAX_CONTENT = 1 << 30  # bytes of the unpacked sheets


def read_excel(file: BinaryIO, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of the first sheet; an empty cell is None, a formula the value that was stored with it.

    Raises DataError without openpyxl, for what is no workbook, and for columns with equal names.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise DataError(f"{name}: xlsx needs openpyxl: pip install 'vlrft[excel]'") from None
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_CONTENT:  # a few bytes of an archive may expand to any number
            raise DataError(f"{name}: more than {MAX_CONTENT:,} bytes when unpacked")
        book = load_workbook(file, read_only=True, data_only=True)
        yield from _sheet_rows(book.worksheets[0].iter_rows(values_only=True), name)
    except DataError:
        raise
    except Exception as e:  # BadZipFile, KeyError, ParseError, InvalidFileException, IndexError, …
        raise DataError(f"{name}: not a readable xlsx workbook ({first_line(e)})") from e


def _sheet_rows(rows: Iterator[tuple[Any, ...]], name: str) -> Iterator[Cells | UnreadableRows]:
    columns = ["" if cell is None else str(cell) for cell in next(rows, ())]
    named = [column for column in columns if column]
    if twice := [column for column in named if named.count(column) > 1]:
        raise DataError(f"{name}: the column {twice[0]!r} is there twice")
    for number, cells in enumerate(rows, 2):
        if all(cell is None for cell in cells):
            continue
        if any(cell is not None for cell in cells[len(columns) :]):
            why = f"{len(cells)} cells for {len(columns)} columns"
            yield UnreadableRows(place=f"{name}, row {number}", why=why)
            continue
        yield {c: v for c, v in zip(columns, cells, strict=False) if c}
