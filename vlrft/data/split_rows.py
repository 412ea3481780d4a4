"""The rows of a split: those of its tables, one after the other. A row or a table that cannot be read does not end them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from vlrft.data.cells import Cells, TableRow, UnreadableRows
from vlrft.data.files import Files
from vlrft.data.repository import STATE, card_tables, read_saved, refuse_twins, saved_tables, shards
from vlrft.data.row import Defect
from vlrft.data.tables import SUFFIXES, read_table
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit
from vlrft.schema.short_message import short_message

METADATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
SHOWN = 5  # files in messages
SPLITS = (
    frozenset({"train", "training"}),
    frozenset({"validation", "val", "valid", "dev"}),
    frozenset({"test", "testing"}),
)
"""Words in the names of tables that say which split they are."""
MAX_NAME = 200  # characters of a file's name in messages
Unreadable = list[Defect]
"""The rows of tables that could not be read so far, as a source collects them. A source without the list raises DataError
at the first one."""


def split_rows(
    files: Files, split: str, unreadable: Unreadable | None, notes: list[str], *, single: bool
) -> Iterator[Cells]:
    """The rows of the split's tables, numbered over all of them. Rows that cannot be read are collected; `notes` receives
    what a user should know of the choice of tables."""
    number = 0
    for name in _tables(files, split, notes, single=single):
        for item in _read(files, name):
            if not isinstance(item, UnreadableRows):
                row = TableRow(item)
                row.number = number
                number += 1
                yield row
                continue
            if unreadable is None:
                raise DataError(f"{item.place}: {item.why}")
            lost = f"; {item.rows} rows are lost" if item.rows > 1 else ""
            reason = "unreadable row" if item.rows else "unreadable table"
            unreadable.append(Defect(id=item.place, reason=reason, detail=f"{item.why}{lost}"))
            number += item.rows


def _read(files: Files, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of a table; one that cannot be read further ends with the reason."""
    rows = 0
    root = _on_disk(files)
    try:
        if root is not None and PurePosixPath(name).name == STATE:
            yield from read_saved(root / PurePosixPath(name).parent, name)
            return
        with files.open(name) as file:
            for item in read_table(file, name):
                yield item
                rows += 1
    except DataError as e:
        yield UnreadableRows(place=name, why=str(e).removeprefix(f"{name}: "), rows=0)
    except Exception as e:  # BadZipFile (CRC), zlib.error, MemoryError, OSError, …
        place = f"{name}, after row {rows}" if rows else name
        yield UnreadableRows(place=place, why=short_message(e), rows=0)


def _on_disk(files: Files) -> Path | None:
    """The folder with the files, where they are not in an archive."""
    root: Path | None = getattr(files, "root", None)
    return root


def find_tables(files: Files, split: str, *, single: bool) -> list[str]:
    """The split's tables: a file given alone, what `save_to_disk` wrote, the files that the configs of a repository's card
    name, `test.jsonl`, `test-00000-of-00002.parquet`, `data/test/…`; if there are none of these, `pets37_test.jsonl`,
    `test_2d.parquet`. Of several formats all are found; see `one_format`. Raises DataError where several configs have it."""
    tables = table_names(files)
    if not single:
        saved = saved_tables(files, split)
        if saved and _on_disk(files) is None:
            saved = [shard for state in saved for shard in shards(files, state)]
        if by_layout := saved or card_tables(files, split, tables):
            return by_layout
    matches = [n for n in tables if (_may_be(n, split) if single else _is_of_split(n, split))]
    refuse_twins(files, split, matches)
    return matches or [n for n in tables if split in re.split(r"[-_.]", PurePosixPath(n).stem)]


def table_names(files: Files) -> list[str]:
    """Every table, without the descriptions that `datasets` writes next to its tables."""
    paths = map(PurePosixPath, files.names())
    return [p.as_posix() for p in paths if p.suffix.lower() in SUFFIXES and p.name not in METADATA]


def one_format(tables: Sequence[str]) -> list[str]:
    """The tables of the first of `SUFFIXES` that one of them has: repositories of data sets have a split in several formats,
    with the pictures in its parquet files alone."""
    formats = [PurePosixPath(name).suffix.lower() for name in tables]
    first = min(formats, key=SUFFIXES.index, default="")
    return [name for name, suffix in zip(tables, formats, strict=True) if suffix == first]


def _tables(files: Files, split: str, notes: list[str], *, single: bool) -> list[str]:
    """The split's tables, of one format. Raises DataError if there is none."""
    matches = find_tables(files, split, single=single)
    if not matches:
        tables = table_names(files)
        raise MissingSplit(
            f"{files.label}: no table of the {split} split; expected {split}.jsonl, {split}.parquet or "
            f"{split}-*.parquet, found {', '.join(tables[:5]) or 'none'}"
        )
    chosen = one_format(matches)
    later = any(split in names for names in SPLITS[1:])
    if single and later and not any(words_of(chosen[0]) & names for names in SPLITS):
        notes.append(
            f"{chosen[0]} is one table without the name of a split: all of its rows are the {split} split, and the same "
            "rows may be another split, too"
        )
    if others := [name for name in matches if name not in chosen]:
        notes.append(
            f"the {split} split is read from {_list(chosen)}; the same split in another format is not read: "
            f"{_list(others)}"
        )
    return chosen


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))


def words_of(name: str) -> set[str]:
    """The words of a table's name."""
    return set(re.split(r"[-_.]", PurePosixPath(name).stem))


def _may_be(name: str, split: str) -> bool:
    """Whether a table that is given alone may be the split: not where its name says another one."""
    words = words_of(name)
    others = [names for names in SPLITS if split not in names]
    own = len(others) == len(SPLITS) or any(words & names for names in SPLITS if split in names)
    return own or not any(words & names for names in others)


def _is_of_split(name: str, split: str) -> bool:
    path = PurePosixPath(name)
    stem = path.stem
    return stem == split or stem.startswith(f"{split}-") or split in path.parts[:-1]


def short_name(name: str) -> str:
    """A file's name in messages."""
    return repr(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]} …")
