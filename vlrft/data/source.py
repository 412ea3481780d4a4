"""Sources of files and tables: a folder, a zip, a single file, or a dataset of the hub."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast, runtime_checkable

from vlrft.data.row import Picture
from vlrft.data.tables import SUFFIXES, Cells, hub_rows, read_table
from vlrft.schema import DataError
from vlrft.vision.images import open_image


@runtime_checkable
class Source(Protocol):
    """Files by relative name, and the tables among them by split."""

    @property
    def label(self) -> str:
        """The source's name in messages."""
        ...

    def names(self) -> tuple[str, ...]:
        """Every file, sorted, with `/` between folders."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A file's content, seekable. Raises DataError if it is not there."""
        ...

    def rows(self, split: str) -> Iterator[Cells]:
        """The rows of a split's tables, in order. Raises DataError if there is no table."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder, or a single file in it."""

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    @property
    def root(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @cached_property
    def _files(self) -> tuple[str, ...]:
        if self.path.is_file():
            return (self.path.name,)
        files = (p for p in self.path.rglob("*") if p.is_file())
        inside = (p.relative_to(self.path) for p in files)
        return tuple(
            sorted(p.as_posix() for p in inside if not any(s.startswith(".") for s in p.parts))
        )

    def names(self) -> tuple[str, ...]:
        return self._files

    def open(self, name: str) -> BinaryIO:
        root = self.root.absolute()
        path = root / name  # symbolic links may lead anywhere: a hub snapshot consists of them
        if not Path(normpath(path)).is_relative_to(normpath(root)):
            raise DataError(f"{self.label}: {name!r} leads out of the folder")
        try:
            return path.open("rb")
        except OSError as e:
            raise DataError(f"{self.label}: cannot read {name!r} ({e.strerror})") from e

    def rows(self, split: str) -> Iterator[Cells]:
        return _rows(self, split, single=self.path.is_file())


@dataclass(frozen=True)
class Zip:
    """A zip archive, read without unpacking it."""

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as e:
            raise DataError(f"{self.path}: not a readable zip archive ({e})") from e

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(i.filename for i in self._archive.infolist() if not i.is_dir()))

    def open(self, name: str) -> BinaryIO:
        try:
            return cast(BinaryIO, self._archive.open(name))
        except (KeyError, OSError, zipfile.BadZipFile, RuntimeError) as e:
            raise DataError(f"{self.label}: cannot read {name!r} ({e})") from e

    def rows(self, split: str) -> Iterator[Cells]:
        return _rows(self, split, single=False)


@dataclass(frozen=True)
class Subfolder:
    """A folder of another source."""

    source: Source
    folder: str

    @property
    def label(self) -> str:
        return f"{self.source.label}/{self.folder}"

    def names(self) -> tuple[str, ...]:
        start = f"{self.folder}/"
        return tuple(n.removeprefix(start) for n in self.source.names() if n.startswith(start))

    def open(self, name: str) -> BinaryIO:
        return self.source.open(f"{self.folder}/{name}")

    def rows(self, split: str) -> Iterator[Cells]:
        return _rows(self, split, single=False)


@dataclass(frozen=True)
class Hub:
    """A dataset of the hub; its images are part of its rows."""

    label: str
    config: str | None = None

    def names(self) -> tuple[str, ...]:
        return ()

    def open(self, name: str) -> BinaryIO:
        raise DataError(
            f"{self.label}: {name!r} is no column; download the dataset and give its folder"
        )

    def rows(self, split: str) -> Iterator[Cells]:
        return hub_rows(self.label, self.config, split)


def open_source(where: str | Path) -> Source:
    """The source at an existing folder, file or zip; otherwise a hub id: `owner/name`, `owner/name:config`, or
    `owner/name:folder/` for the tables of one folder.

    Raises DataError for anything else.
    """
    path = Path(where).expanduser()
    if path.is_file() and path.suffix.lower() == ".zip":
        return Zip(path)
    if path.exists():
        return Folder(path)
    name, _, config = str(where).partition(":")
    if len(PurePosixPath(name).parts) == 2 and not name.startswith((".", "/", "~")):
        return Hub(name, config or None)
    raise DataError(f"{where}: no such file or folder, and not a hub id (owner/name)")


def read_file(source: Source, name: str) -> bytes:
    """The content of a file of the source."""
    with source.open(name) as file:
        return file.read()


def parse_picture(cell: object, source: Source, name: str) -> Picture:
    """A table's image cell as a picture: bytes, `{"bytes", "path"}`, or the name of a file of the source.

    Raises DataError for any other cell.
    """
    if isinstance(cell, Mapping):
        content, path = cell.get("bytes"), cell.get("path")
        cell = content if content is not None else path
    if isinstance(cell, bytes):
        return Picture(name=name, read=lambda: cell)
    if isinstance(cell, str) and cell:
        return Picture(name=cell, read=lambda: read_file(source, cell))
    raise DataError(f"{name}: no image (found {type(cell).__name__})")


def check_picture(picture: Picture) -> None:
    """Raises DataError for a picture that is missing or not an image."""
    open_image(picture.read(), picture.name)


def _rows(source: Source, split: str, *, single: bool) -> Iterator[Cells]:
    """The rows of the split's tables: a file given alone, `test.jsonl`, `test-00000-of-00002.parquet`, `data/test/…`; if
    there are none of these, `pets37_test.jsonl`, `test_2d.parquet`."""
    tables = [n for n in source.names() if PurePosixPath(n).suffix.lower() in SUFFIXES]
    matches = tables if single else [n for n in tables if _is_of_split(n, split)]
    matches = matches or [n for n in tables if split in re.split(r"[-_.]", PurePosixPath(n).stem)]
    if not matches:
        raise DataError(
            f"{source.label}: no table of the {split} split; expected {split}.jsonl, {split}.parquet or "
            f"{split}-*.parquet, found {', '.join(tables[:5]) or 'none'}"
        )
    for name in matches:
        with source.open(name) as file:
            yield from read_table(file, name)


def _is_of_split(name: str, split: str) -> bool:
    path = PurePosixPath(name)
    stem = path.stem
    return stem == split or stem.startswith(f"{split}-") or split in path.parts[:-1]
