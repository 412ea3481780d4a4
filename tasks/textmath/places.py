"""Where a set's rows are in the data that the user gave: a table of its name, a folder of it, or a copy of its repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from vlrft.data import Source, Subfolder, describe_files, has_tables, open_source
from vlrft.data.source import Folder, Hub
from vlrft.data.split_rows import table_names
from vlrft.schema.errors import MissingSplit

from .sets import SUITE, TextSet


@dataclass(frozen=True, kw_only=True)
class Place:
    """The rows of a set's split."""

    source: Source
    table: str
    """The name of the split's tables."""
    by_hash: bool
    """The table holds the rows of both splits."""


def locate(source: Source, split: str, name: str, text_set: TextSet, *, alone: bool) -> Place:
    """The place of the set's split. `alone`: no other set is asked for, so that the source may be a copy of the set under any
    name. Raises MissingSplit, with what was looked for and what was found."""
    repository, _, config = (text_set.hub or "").partition(":")
    aliases = (name, *text_set.files)
    published = text_set.splits.get(split, "train")
    if isinstance(source, Hub):
        if source.label == repository:
            return Place(
                source=open_source(text_set.hub or ""),
                table=published,
                by_hash=not text_set.splits,
            )
        splits = source.splits()
        if table := next((alias for alias in _in_suite(aliases, splits) if alias in splits), None):
            return Place(source=source, table=table, by_hash=len(text_set.splits) != 1)
        if alone and published in splits:
            return Place(source=source, table=published, by_hash=not text_set.splits)
    saved = {n.removesuffix("/state.json") for n in source.names() if n.endswith("/state.json")}
    for alias in _in_suite(aliases, saved):
        if alias in saved:
            return Place(source=source, table=alias, by_hash=len(text_set.splits) != 1)
    folders = {PurePosixPath(n).parts[0] for n in source.names() if "/" in n}
    for folder in dict.fromkeys((*aliases, PurePosixPath(repository).name)):
        if folder in folders:
            part = Subfolder(source, folder)
            if folder == name and has_tables(part, split):
                return Place(source=part, table=split, by_hash=False)
            return _in_copy(part, split, name, text_set, config)
    stems = {PurePosixPath(n).stem.partition("-0000")[0] for n in source.names()} | folders
    for alias in _in_suite(aliases, stems):
        if alias in stems and has_tables(source, alias):
            return Place(source=source, table=alias, by_hash=len(text_set.splits) != 1)
    if source.names() and (alone or _is_copy(source, repository)):
        return _in_copy(source, split, name, text_set, config)
    raise MissingSplit(_not_found(source, split, name, text_set))


def _in_suite(aliases: tuple[str, ...], present: set[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The names of a set's table; in the suite of Dr. GRPO also its own name there, which elsewhere is another set's."""
    whole = {table for _, table in SUITE} <= set(present)
    return (*(table for name, table in SUITE if whole and name == aliases[0]), *aliases)


def _in_copy(source: Source, split: str, name: str, text_set: TextSet, config: str) -> Place:
    """The split in a copy of the set's repository, or in a folder with its splits, or in a single file."""
    if isinstance(source, Folder) and source.path.is_file():
        named = {"train", "test"} & set(PurePosixPath(source.path.name).stem.split("-")[:1])
        if not named or split in named:
            by_hash = not named and len(text_set.splits) != 1
            return Place(source=source, table=split, by_hash=by_hash)
        raise MissingSplit(_not_found(source, split, name, text_set))
    folder = config.removesuffix("/")
    if folder and any(n.startswith(f"{folder}/") for n in source.names()):
        source = Subfolder(source, folder)
    if not text_set.splits and not has_tables(source, "test") and has_tables(source, "train"):
        return Place(source=source, table="train", by_hash=True)
    for table in (split, text_set.splits.get(split)):
        if table is not None and has_tables(source, table):
            return Place(source=source, table=table, by_hash=False)
    tables = [PurePosixPath(table) for table in table_names(source)]
    if len(tables) == 1 and not _names_a_split(tables[0]):  # `data/dapo-math-17k.parquet`
        return Place(source=source, table=tables[0].stem, by_hash=len(text_set.splits) != 1)
    raise MissingSplit(_not_found(source, split, name, text_set))


def _names_a_split(table: PurePosixPath) -> bool:
    words = {*table.parts[:-1], *re.split(r"[-_.]", table.stem)}
    return bool(words & {"train", "test", "val", "validation", "dev"})


def _is_copy(source: Source, repository: str) -> bool:
    """Whether the source is a folder with the name of the repository, or its folder in the hub's cache."""
    if not repository or not isinstance(source, Folder):
        return False
    path = source.path.absolute()
    name = PurePosixPath(repository).name
    return name == path.name or f"datasets--{repository.replace('/', '--')}" in path.parts


def _not_found(source: Source, split: str, name: str, text_set: TextSet) -> str:
    names = " or ".join(f"{alias}.jsonl" for alias in (name, *text_set.files))
    copy = f"; (3) a copy of {text_set.hub}, given alone" if text_set.hub else ""
    found = describe_files(source) if source.names() else "a repository of the hub"
    return (
        f"{source.label}: no table of {name} with its {split} split; looked for (1) {names} (or parquet); (2) "
        f"{name}/{split}.jsonl{copy}; found {found}"
    )
