"""Sources of files and tables: a folder, perhaps of archives, an archive, a single file, or a dataset of the hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from os.path import exists, normpath
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, runtime_checkable
from unicodedata import normalize

from vlrft.data.archives import Archive, is_archive, open_archive, unpacked_names
from vlrft.data.cells import Cells
from vlrft.data.hub import hub_rows, hub_splits
from vlrft.data.split_rows import Unreadable, short_name, split_rows
from vlrft.data.tables import SUFFIXES
from vlrft.plugins.names import nearest
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

LONGEST_NAME = 1000  # characters; of more, the order of accents takes long


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
    """A folder, or a single file in it. Archives in the folder are read as if they were unpacked next to themselves: into a
    folder of the archive's name, unless all its files are in one folder already. What is unpacked is read from there."""

    path: Path
    unreadable: Unreadable | None = field(default=None, compare=False)
    notes: list[str] = field(default_factory=list[str], compare=False)

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

    @cached_property
    def _packed(self) -> dict[str, tuple[Archive, str]]:
        """Name -> the archive that it is in, and its name there."""
        if self.path.is_file():
            return {}
        packed: dict[str, tuple[Archive, str]] = {}
        for name in filter(is_archive, self._files):
            archive = open_archive(self.path / name)
            for place, member in unpacked_names(name, archive.names()):
                if not (self.path / place).exists():
                    packed.setdefault(place, (archive, member))
        return packed

    def names(self) -> tuple[str, ...]:
        return tuple(sorted((*self._files, *self._packed))) if self._packed else self._files

    def open(self, name: str) -> BinaryIO:
        if name in self._packed:
            archive, member = self._packed[name]
            return _open_member(archive, member, f"{self.label}: cannot read {short_name(name)}")
        root = self.root.absolute()
        path = root / name  # symbolic links may lead anywhere: a hub snapshot consists of them
        if not name.isascii() and len(name) <= LONGEST_NAME:  # letters and accents may be apart
            forms = (root / normalize(form, name) for form in ("NFC", "NFD"))
            path = next((p for p in (path, *forms) if exists(p)), path)
        if not Path(normpath(path)).is_relative_to(normpath(root)):
            raise DataError(f"{self.label}: {short_name(name)} leads out of the folder")
        try:
            if path.exists() and not path.is_file():  # reading a pipe or a device may never end
                raise DataError(f"{self.label}: cannot read {short_name(name)} (not a file)")
            return path.open("rb")
        except OSError as e:
            raise DataError(f"{self.label}: cannot read {short_name(name)} ({e.strerror})") from e
        except ValueError as e:  # NUL or half a surrogate pair
            if isinstance(e, DataError):
                raise
            raise DataError(f"{self.label}: cannot read {short_name(name)} ({e})") from e

    def rows(self, split: str) -> Iterator[Cells]:
        return split_rows(self, split, self.unreadable, self.notes, single=self.path.is_file())


@dataclass(frozen=True)
class Packed:
    """An archive (zip, tar.gz, …), read without unpacking it."""

    path: Path
    unreadable: Unreadable | None = field(default=None, compare=False)
    notes: list[str] = field(default_factory=list[str], compare=False)

    @property
    def label(self) -> str:
        return str(self.path)

    @cached_property
    def _archive(self) -> Archive:
        return open_archive(self.path)

    def names(self) -> tuple[str, ...]:
        return self._archive.names()

    def open(self, name: str) -> BinaryIO:
        where = f"{self.label}: cannot read {short_name(name)}"
        return _open_member(self._archive, name, where)

    def rows(self, split: str) -> Iterator[Cells]:
        return split_rows(self, split, self.unreadable, self.notes, single=False)


def _open_member(archive: Archive, name: str, problem: str) -> BinaryIO:
    try:
        return archive.open(name)
    except Exception as e:  # KeyError, BadZipFile, NotImplementedError, RuntimeError (encrypted), …
        raise DataError(f"{problem} ({first_line(e)})") from e


@dataclass(frozen=True)
class Subfolder:
    """A folder of another source."""

    source: Source
    folder: str

    @property
    def label(self) -> str:
        return f"{self.source.label}/{self.folder}"

    @property
    def root(self) -> Path | None:
        root: Path | None = getattr(self.source, "root", None)
        return root and root / self.folder

    @property
    def unreadable(self) -> Unreadable | None:
        return getattr(self.source, "unreadable", None)

    @property
    def notes(self) -> list[str]:
        return notes_of(self.source)

    def names(self) -> tuple[str, ...]:
        start = f"{self.folder}/"
        return tuple(n.removeprefix(start) for n in self.source.names() if n.startswith(start))

    def open(self, name: str) -> BinaryIO:
        return self.source.open(f"{self.folder}/{name}")

    def rows(self, split: str) -> Iterator[Cells]:
        return split_rows(self, split, self.unreadable, self.notes, single=False)


@dataclass(frozen=True)
class Hub:
    """A dataset of the hub; its images are part of its rows."""

    label: str
    config: str | None = None
    notes: list[str] = field(default_factory=list[str], compare=False)

    def names(self) -> tuple[str, ...]:
        return ()

    def open(self, name: str) -> BinaryIO:
        raise DataError(
            f"{self.label}: {name!r} is no column; download the dataset and give its folder"
        )

    def splits(self) -> tuple[str, ...]:
        """The splits of the dataset. Raises DataError if they cannot be read."""
        return hub_splits(self.label, self.config)

    def rows(self, split: str) -> Iterator[Cells]:
        return hub_rows(self.label, self.config, split)


def notes_of(source: Source) -> list[str]:
    """The notes of a source, one line each: what was chosen or guessed while its rows were read. Readers append to it, and
    `vlrft check` and `vlrft data prepare` print it."""
    notes: list[str] = getattr(source, "notes", [])
    return notes


def open_source(where: str | Path, unreadable: Unreadable | None = None) -> Source:
    """The source at an existing folder, file or archive; otherwise a hub id: `owner/name`, `owner/name:config`, or
    `owner/name:folder/` for the tables of one folder. `unreadable`: collects the rows of tables that cannot be read.

    Raises DataError for anything else.
    """
    try:
        path = Path(where).expanduser()
        if path.is_file() and is_archive(path.name):
            return Packed(path, unreadable)
        if path.exists():
            return Folder(path, unreadable)
    except (OSError, RuntimeError, ValueError) as e:  # too long a name, an unknown user, …
        raise DataError(f"{short_name(str(where))}: not a place of data ({first_line(e)})") from e
    name, _, config = str(where).partition(":")
    parts = PurePosixPath(name).parts
    near = _near_entry(path)
    is_id = len(parts) == 2 and not name.startswith((".", "/", "~"))
    if is_id and not near and not (is_archive(name) or path.suffix.lower() in SUFFIXES):
        return Hub(name, config or None)
    no_id = "" if is_id else ", and not a hub id (owner/name)"
    raise DataError(f"{where}: no such file or folder{no_id}{near}")


def _near_entry(path: Path) -> str:
    """A suggestion for a path that is not there, from its folder: `anmals/cats` could be a hub id, too."""
    if path.parent == Path() or not path.parent.is_dir():
        return ""
    name = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
    return "" if name is None else f"; did you mean {path.parent / name}?"
