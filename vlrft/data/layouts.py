"""Layouts: the forms in which a data set is published, each with a name, a test that recognises it, and its reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from vlrft.data.row import Defect, Row
from vlrft.data.source import Folder, Source
from vlrft.data.split_rows import find_tables
from vlrft.schema.errors import MissingSplit

MAX_ENTRIES = 8  # of a folder, in messages


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One form in which a data set is published."""

    name: str
    """Files and origin, as messages list them: `SPLIT/*.jpg + *.json (ReasonSeg)`."""
    found: Callable[[Source, str, Any], bool]
    """Whether a split of this form is at the source, seen from the names of its files; arguments as of `read`. A source
    without names is a hub id. For tables there is `has_tables`."""
    read: Callable[[Source, str, Any], Iterable[Row | Defect]]
    """The rows of the split, given the source, the split and the pack's options."""
    splits: tuple[str, ...] = ()
    """The splits that are published in this form; all unless given."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values of the pack's options with which it is looked for: one data set of several; any unless given."""

    def is_of(self, split: str, options: Any) -> bool:
        """Whether the layout is looked for."""
        of_split = not self.splits or split in self.splits
        return of_split and all(getattr(options, k) == v for k, v in self.options.items())


@dataclass(frozen=True)
class Layouts:
    """The layouts of a pack, in the order in which they are tried: the `read` of its `Dataset`."""

    layouts: Sequence[Layout]

    def __call__(self, source: Source, split: str, options: Any) -> Iterable[Row | Defect]:
        """The rows as the first layout that is found reads them. Raises MissingSplit, with what was looked for and what was
        found, where there is none."""
        for layout in self.of(split, options):
            if layout.found(source, split, options):
                return layout.read(source, split, options)
        raise MissingSplit(
            f"{source.label}: no {split} split; {self.explain(source, split, options)}"
        )

    def explain(self, source: Source, split: str, options: Any) -> str:
        """The layouts that are looked for, and the files that are there, for the message of a split without rows."""
        return f"looked for {self.forms(split, options)}; found {describe_files(source)}"

    def forms(self, split: str, options: Any) -> str:
        """The names of the split's layouts, numbered."""
        names = (layout.name for layout in self.of(split, options))
        return "; ".join(f"({k}) {name}" for k, name in enumerate(names, 1))

    def of(self, split: str, options: Any) -> list[Layout]:
        """The layouts that are looked for, in their order."""
        return [layout for layout in self.layouts if layout.is_of(split, options)]


def has_tables(source: Source, split: str, options: object = None) -> bool:
    """Whether there is a table of the split. A hub id has no names: what it has is known when it is read."""
    single = isinstance(source, Folder) and source.path.is_file()
    return not source.names() or bool(find_tables(source, split, single=single))


def describe_files(source: Source) -> str:
    """The entries of the source's top folder with their numbers of files: `images/ (300 files), README.md`. Of a folder
    that holds a single folder, the entries of that one."""
    names = [PurePosixPath(name) for name in source.names()]
    if not names:
        return "no files"
    depth = 0
    while all(len(name.parts) > depth + 1 for name in names) and (
        len({name.parts[: depth + 1] for name in names}) == 1
    ):
        depth += 1
    entries = Counter(
        "/".join(n.parts[: depth + 1]) + "/" * (len(n.parts) > depth + 1) for n in names
    )
    shown = [
        f"{entry} ({count} {'file' if count == 1 else 'files'})" if entry.endswith("/") else entry
        for entry, count in list(entries.items())[:MAX_ENTRIES]
    ]
    more = len(entries) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
