"""The rows of a file of stored outputs, before its format is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from vlrft.data.cells import Cells, UnreadableRows
from vlrft.data.tables import MAX_TABLE, SUFFIXES, parse_json_file, read_limited, read_table
from vlrft.plugins.names import did_you_mean
from vlrft.schema import DataError
from vlrft.schema.errors import OutputsError


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """The file's rows, and what it says around them."""

    path: Path
    rows: Sequence[Cells | UnreadableRows]
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The other keys of a json object that has the rows in its only list of objects."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The keys of all rows, in the order in which they appear."""
        rows = (row for row in self.rows if not isinstance(row, UnreadableRows))
        return tuple(dict.fromkeys(key for row in rows for key in row))


def read_stored_file(path: Path) -> StoredFile:
    """The rows of a file, also those that cannot be read. Raises DataError where nothing of it can be read."""
    if not path.is_file():
        raise OutputsError(f"{path}: {_problem(path)}")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path}: outputs are read from {', '.join(SUFFIXES)}, not from {suffix or 'a file without suffix'}"
        )
    with path.open("rb") as file:
        if suffix == ".json":
            return _read_json(path, read_limited(file, str(path), MAX_TABLE))
        return StoredFile(path=path, rows=tuple(read_table(file, path.name)))


def _problem(path: Path) -> str:
    if path.is_dir():
        return "a folder; give one of its files"
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return f"no such file{did_you_mean(path.name, names)}"


def _read_json(path: Path, content: bytes) -> StoredFile:
    """A list of objects, an object with exactly one such list among its values, or an object of ids with their outputs."""
    document = parse_json_file(content, str(path))
    if isinstance(document, list):
        return StoredFile(path=path, rows=tuple(_objects(document)))
    if (
        isinstance(document, dict)
        and document
        and all(isinstance(v, str) for v in document.values())
    ):
        rows = tuple({"id": key, "output": text} for key, text in document.items())
        return StoredFile(path=path, rows=rows)
    lists = {
        key: value
        for key, value in (document.items() if isinstance(document, dict) else ())
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    if len(lists) != 1:
        found = f"{len(lists)} such lists ({', '.join(lists)})" if lists else "none"
        raise DataError(
            f"{path}: expected a list of objects, an object with one such list, or ids with texts; found {found}"
        )
    ((key, objects),) = lists.items()
    head = {k: v for k, v in document.items() if k != key}
    return StoredFile(path=path, rows=tuple(_objects(objects)), head=head)


def _objects(rows: list[Any]) -> Iterator[Cells | UnreadableRows]:
    for k, row in enumerate(rows):
        if isinstance(row, dict):
            yield row
        else:
            why = f"expected an object, found {type(row).__name__}"
            yield UnreadableRows(place=f"item {k}", why=why)
