"""Which data are a split: tables or folders of its name, the rows with its name in a column, or a share of the train rows.

One table is never two splits: without a name, a column or a share, it is the train split and there is no test split.
"""

from __future__ import annotations

import random
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vlrft.data import Defect, Source, open_source
from vlrft.data.source import Folder
from vlrft.data.split_rows import find_tables, table_names
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit

from .entry import Entry
from .part import Part

if TYPE_CHECKING:
    from .options import Options

NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
KNOWN = frozenset(name for names in NAMES.values() for name in names)
YEAR = re.compile(r"(19|20)\d\d$")  # train2017
SHARD = re.compile(r"-\d{5}-of-\d{5}$")
LOOKED_AT = 1000  # rows whose split column is looked at
COLUMN = "split"


def find_part(source: Source, split: str, options: Options) -> Part:
    """The split's part of the data. Raises MissingSplit where there is none, DataError where it is ambiguous."""
    if options.test_share is not None and split in ("train", "test"):
        if _has_split(source, "test", options):
            raise DataError(
                f"{source.label}: has a test split of its own; remove options.test_share"
            )
        whole = _find_whole(source, "train", options)
        share = f"{options.test_share:.3g} of {whole.why} (seed {options.seed})"
        why = share if split == "test" else f"all but {share}"
        return replace(whole, share=split == "test", why=why)
    return _find_whole(source, split, options)


def draw_share(
    entries: Iterable[Entry | Defect], share: float, seed: int, *, drawn: bool
) -> Iterator[Entry | Defect]:
    """The entries of a share, or all others. Entries with the same first picture stay together; a defect is one of the
    others. Raises DataError where one of the two would be empty."""
    items = list(entries)
    keys = [_group(item) for item in items]
    distinct = [key for key in dict.fromkeys(keys) if key is not None]
    count = round(share * len(distinct))
    if not 0 < count < len(distinct):
        raise DataError(
            f"options.test_share={share:g} of {len(distinct)} pictures or rows is {count}; use another share"
        )
    chosen = set(random.Random(f"table {seed}").sample(distinct, count))
    return (item for item, key in zip(items, keys, strict=True) if (key in chosen) == drawn)


def _group(item: Entry | Defect) -> Hashable:
    """The identity of the entry's first picture, or of the entry without pictures; None of a defect."""
    if isinstance(item, Defect):
        return None
    return ("picture", item.pictures[0].key) if item.pictures else ("row", item.id)


def _find_whole(source: Source, split: str, options: Options) -> Part:
    """The split's part, before a share of it is drawn."""
    name = options.splits.get(split)
    names = (name,) if name is not None else NAMES[split]
    words = split_words(source)
    _refuse_twice(source, options)
    if name is not None and _is_path(source, name, words, options):
        place = open_source(name, unreadable=getattr(source, "unreadable", None))
        return Part(source=place, split=_only_table(place), why=f"options.splits.{split}")
    if options.split_column is not None:
        return _column_part(source, options.split_column, names, options)
    if not source.names():  # a hub id: the hub says whether it has the split
        return Part(source=source, split=name or split, why="the hub's split")
    for candidate in names:
        if find_tables(source, candidate, single=False):
            return Part(source=source, split=candidate, why=f"named {candidate}")
        if candidate in words:
            return Part(source=source, split=words[candidate], why=f"named {words[candidate]}")
    if _has_split_column(source, words, options.splits.values()):
        return _column_part(source, COLUMN, names, options)
    if name is not None:
        raise DataError(
            f"{source.label}: options.splits: no {name!r}, neither a path nor a name in {_list_names(words)}"
        )
    if split == "train" and not KNOWN & words.keys():
        return Part(source=source, split=_only_table(source), why="all rows")
    raise MissingSplit(
        f"{source.label}: no {split} split (found {_list_names(words)}); give its place or its name, options.splits={{{split}: "
        f"PATH}}{', or draw one from the rows, options.test_share=0.1' if split == 'test' else ''}"
    )


def _is_path(source: Source, name: str, words: Iterable[str], options: Options) -> bool:
    """Whether a split's name is a path that is there; without a folder and a suffix it is first a name in the data."""
    if not Path(name).expanduser().exists():
        return False
    if PurePosixPath(name).name != name or PurePosixPath(name).suffix:
        return True
    column = options.split_column
    if column is None and source.names():
        if name in words or find_tables(source, name, single=False):
            return False
        column = COLUMN if _has_split_column(source, words, options.splits.values()) else None
    return column is None or next(_cells_part(source, column, [name]).rows(), None) is None


def _refuse_twice(source: Source, options: Options) -> None:
    """Raises DataError where the options make one table, or one name, the train split and another one."""
    places = {split: _place(name) for split, name in options.splits.items()}
    if isinstance(source, Folder) and source.path.is_file() and options.split_column is None:
        places.setdefault("train", source.path.resolve())
    twin = next((s for s in places if s != "train" and places[s] == places.get("train")), None)
    if twin is not None:
        raise DataError(
            f"{source.label}: options.splits: {options.splits[twin]} is train and {twin} at once; draw a test split from its "
            "rows, options.test_share=0.1, or evaluate its rows with --split train"
        )


def _place(name: str) -> Path | str:
    path = Path(name).expanduser()
    return path.resolve() if path.exists() else name


def _has_split(source: Source, split: str, options: Options) -> bool:
    if not source.names() and split not in options.splits:
        return False
    try:
        _find_whole(source, split, options)
    except MissingSplit:
        return False
    return True


def split_words(source: Source) -> dict[str, str]:
    """Each word of the names of tables and their folders that may be a split, without a year -> the word as it is written there.
    Without tables, the words of all folders and of json files."""
    tables = table_names(source)
    words: dict[str, str] = {}
    for path in map(PurePosixPath, tables or source.names()):
        stem = SHARD.sub("", path.stem) if tables else ""
        for word in (*path.parts[:-1], *((stem, *re.split(r"[-_.]", stem)) if stem else ())):
            words.setdefault(YEAR.sub("", word), word)
            words.setdefault(word, word)
    return words


def _column_part(source: Source, column: str, names: Sequence[str], options: Options) -> Part:
    """The rows of the only table, or of a hub id's train split, with one of the names in a column. Raises MissingSplit where
    there are none, DataError without such a column."""
    of_splits = (
        (options.splits[s],) if s in options.splits else others for s, others in NAMES.items()
    )
    part = replace(
        _cells_part(source, column, names), known=frozenset(name for s in of_splits for name in s)
    )
    if next(part.rows(), None) is None:
        everything = islice(replace(part, column=None).rows(), LOOKED_AT)
        values = dict.fromkeys(str(cells[column]) for cells in everything if column in cells)
        if not values:
            raise DataError(f"{source.label}: options.split_column: no column {column!r}")
        raise MissingSplit(
            f"{source.label}: no row with {' or '.join(names)} in column {column!r}, which has {_list_names(values)}"
        )
    return part


def _cells_part(source: Source, column: str, names: Sequence[str]) -> Part:
    return Part(
        source=source,
        split=(_only_table(source) or "train") if source.names() else "train",
        column=column,
        values=frozenset(names),
        why=f"rows with {' or '.join(names)} in column {column!r}",
    )


def _has_split_column(source: Source, words: Iterable[str], named: Iterable[str]) -> bool:
    """Whether the only table, not named after a split itself, has a column `split` whose values are names of splits. `named`: those
    of the options.

    Raises DataError where some values are names of splits, or differ from one in case alone, and others are none.
    """
    if len(_table_stems(source)) != 1 or KNOWN & set(words):
        return False
    rows = islice(Part(source=source, split=_only_table(source), why="").rows(), LOOKED_AT)
    values = {str(cells.get(COLUMN)) for cells in rows}
    others = values - KNOWN - set(named)
    if (others and others != values) or any(value.casefold() in KNOWN for value in others):
        raise DataError(
            f"{source.label}: column {COLUMN!r} has {_list_names(sorted(values))}, of which {_list_names(sorted(others))} is no split; "
            f"known: {_list_names(sorted(KNOWN))}; correct the cells, say which is which, such as options.splits={{test: {min(others)}}}, "
            "or name another column, options.split_column"
        )
    return bool(values) and not others


def _only_table(source: Source) -> str | None:
    """The name by which a source's only table is read, its shards being one; None without tables. Raises DataError for several
    tables without names of splits."""
    stems = _table_stems(source)
    if len(stems) > 1:
        raise DataError(
            f"{source.label}: {len(stems)} tables without the name of a split: {_list_names(stems)}; say which is which, such as "
            f"options.splits={{train: {next(iter(stems))}}}"
        )
    return next(iter(stems), None)


def _table_stems(source: Source) -> tuple[str, ...]:
    """The names of tables, the shards of one being one."""
    names = (SHARD.sub("", PurePosixPath(name).stem) for name in table_names(source))
    return tuple(dict.fromkeys(names))


def _list_names(names: Iterable[str]) -> str:
    listed: Sequence[str] = list(dict.fromkeys(names))
    return ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "") if listed else "no table"
