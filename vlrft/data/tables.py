"""Rows of tables: parquet, arrow, jsonl, json, csv, tsv and xlsx. A row that cannot be read is yielded as such; the next one follows."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from vlrft.data.arrow_tables import read_arrow, read_parquet
from vlrft.data.cells import Cells, UnreadableRows
from vlrft.data.csv_records import BadQuotes, csv_records
from vlrft.data.excel_tables import read_excel
from vlrft.schema import DataError

SUFFIXES = (".parquet", ".arrow", ".jsonl", ".json", ".csv", ".tsv", ".xlsx")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
MAX_LINE = 64 << 20  # bytes of a line of jsonl
MAX_CELL = 10_000_000  # characters of a cell of csv
MAX_TABLE = 2 << 30  # bytes of a csv or json table, which is read whole
CHUNK = 16 << 20


def read_table(file: BinaryIO, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of a table, whose kind is given by its suffix. Raises DataError, which names the file, if all or all further
    rows are lost."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in (".parquet", ".arrow"):
        yield from (read_parquet if suffix == ".parquet" else read_arrow)(file, name)
    elif suffix == ".jsonl":
        yield from _jsonl_rows(file, name)
    elif suffix == ".xlsx":
        yield from read_excel(file, name)
    elif suffix in DELIMITERS:
        yield from _csv_rows(read_limited(file, name, MAX_TABLE), name, DELIMITERS[suffix])
    elif suffix == ".json":
        yield from _json_rows(read_limited(file, name, MAX_TABLE), name)
    else:
        raise DataError(f"{name}: unknown kind of table; known kinds: {', '.join(SUFFIXES)}")


def parse_json(text: str, name: str) -> Any:
    """The value. Raises DataError with `name` for what is not JSON, is nested too deeply, or has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as e:
        raise DataError(f"{name}: not JSON ({e})") from e


def parse_json_file(content: bytes, name: str) -> Any:
    """The value of a whole file. Raises DataError with `name`, which says so where the file has one value a line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(f"{name}: not UTF-8 at byte {e.start}") from e
    try:
        return parse_json(text, name)
    except DataError as e:
        lines = text.strip().split("\n", 1)
        if (
            isinstance(e.__cause__, json.JSONDecodeError)
            and len(lines) > 1
            and _is_object(lines[0])
        ):
            raise DataError(f"{name}: has one object a line; rename it to .jsonl") from e
        raise


def _begins_list(line: str) -> bool:
    """Whether the first line of a file is all of a list of objects, or the beginning of one that has several lines."""
    try:
        return _holds_objects(json.loads(line))
    except (ValueError, RecursionError):
        return line.split() in (["["], ["[{"], ["[", "{"])


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def read_limited(file: BinaryIO, name: str, limit: int) -> bytes:
    """The content of the file. Raises DataError with `name` when it is longer than `limit` bytes, of which no more are read:
    a few bytes of an archive may expand to any number."""
    chunks: list[bytes] = []
    size = 0
    while chunk := file.read(min(CHUNK, limit + 1 - size)):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise DataError(f"{name}: more than {limit:,} bytes")
    return b"".join(chunks)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    cells = dict(pairs)
    if len(cells) < len(pairs):
        raise ValueError(f"the key {_most_common([key for key, _ in pairs])!r} is there twice")
    return cells


def _jsonl_rows(file: BinaryIO, name: str) -> Iterator[Cells | UnreadableRows]:
    number, first = 0, True
    while line := file.readline(MAX_LINE + 1):  # not splitlines: texts contain other line breaks
        number += 1
        where = f"{name}, line {number}"
        if len(line) > MAX_LINE:
            while not line.endswith(b"\n") and (line := file.readline(CHUNK)):
                pass
            yield UnreadableRows(place=where, why=f"a line of more than {MAX_LINE:,} bytes")
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError as e:
            yield UnreadableRows(place=where, why=f"not UTF-8 at byte {e.start}")
            continue
        if text.strip():
            if first and _begins_list(text):
                raise DataError(f"{name}: is one list, not one object a line; rename it to .json")
            first = False
            yield _object_or_unreadable(text, where)


def _object_or_unreadable(text: str, where: str) -> Cells | UnreadableRows:
    try:
        return _require_object(parse_json(text, where), where)
    except DataError as e:
        return UnreadableRows(place=where, why=str(e).removeprefix(f"{where}: "))


def _json_rows(content: bytes, name: str) -> Iterator[Cells | UnreadableRows]:
    rows = parse_json_file(content, name)
    if isinstance(rows, dict):
        rows = _only_list(rows, name)
    if not isinstance(rows, list):
        raise DataError(f"{name}: expected a list of objects, found {type(rows).__name__}")
    for k, row in enumerate(rows):
        if isinstance(row, dict):
            yield row
        else:
            why = f"expected an object, found {type(row).__name__}"
            yield UnreadableRows(place=f"{name}, item {k}", why=why)


def _only_list(content: Mapping[str, Any], name: str) -> list[Any]:
    """The rows of an object that holds them under one key, such as `{"results": [...], "accuracy": 0.5}`. Raises DataError
    where no value or several are lists of objects."""
    keys = [key for key, value in content.items() if _holds_objects(value)]
    if len(keys) != 1:
        found = f"several lists of objects: {', '.join(keys[:5])}" if keys else "one object"
        raise DataError(f"{name}: expected a list of objects, or an object with one, found {found}")
    rows: list[Any] = content[keys[0]]
    return rows


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _csv_rows(content: bytes, name: str, delimiter: str = ",") -> Iterator[Cells | UnreadableRows]:
    """A row may have fewer cells than there are columns, but not more: its text has a delimiter that is not quoted."""
    csv.field_size_limit(
        MAX_TABLE
    )  # of the process; a reader that stops within a cell would misread all further rows
    text = content.decode("utf-8-sig", "surrogateescape")
    named = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    if len(named) == 1 and ";" in named[0]:  # as Excel writes csv where the comma is decimal
        delimiter = ";"
    records = csv_records(text, delimiter)
    _, columns = next(records, (1, []))
    if isinstance(columns, BadQuotes):
        raise DataError(f"{name}: the line of its columns is {columns.why}")
    if not _is_unicode(columns):
        raise DataError(f"{name}: not UTF-8")
    named = [column for column in columns if column]
    if len(set(named)) < len(named):
        raise DataError(f"{name}: the column {_most_common(named)!r} is there twice")
    for line, cells in records:
        if isinstance(cells, BadQuotes):
            lines = f"line {line}" if line == cells.last else f"lines {line} to {cells.last}"
            yield UnreadableRows(place=f"{name}, {lines}", why=cells.why)
        elif why := _csv_problem(cells, columns, delimiter):
            yield UnreadableRows(place=f"{name}, line {line}", why=why)
        elif cells:
            missing = [None] * (len(columns) - len(cells))
            yield dict(zip(columns, [*cells, *missing], strict=False))


def _csv_problem(cells: list[str], columns: list[str], delimiter: str) -> str:
    if any(len(cell) > MAX_CELL for cell in cells):
        return f"a cell of more than {MAX_CELL:,} characters"
    if any(cells[len(columns) :]):
        return (
            f"{len(cells)} cells for {len(columns)} columns; quote texts that contain {delimiter!r}"
        )
    return "" if _is_unicode(cells) else "not UTF-8"


def _is_unicode(cells: list[str]) -> bool:
    text = "".join(cells)
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _most_common(names: Sequence[str]) -> str:
    return Counter(names).most_common(1)[0][0]


def _require_object(row: Any, where: str) -> Cells:
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object, found {type(row).__name__}")
    return row
