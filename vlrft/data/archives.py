"""Archives: zip, tar, and tar compressed with gzip, bzip2 or xz, read without unpacking them into a folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Protocol, cast
from weakref import finalize

from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_UNPACKED = 256 << 30  # bytes of a compressed tar; a few of its bytes may expand to any number
CHUNK = 16 << 20


def unpacked_names(archive: str, members: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each member's place if the archive is unpacked next to itself, and its name in the archive: in a folder of the
    archive's name, unless all members are in one folder already."""
    path = PurePosixPath(archive)
    stem = path.name[: -len(next(s for s in SUFFIXES if path.name.lower().endswith(s)))]
    one_folder = len({PurePosixPath(m).parts[0] for m in members}) == 1
    folder = path.parent if one_folder and "/" in members[0] else path.parent / stem
    for member in members:
        parts = PurePosixPath(member).parts
        if (
            member.startswith("/")
            or ".." in parts
            or any(p.startswith((".", "__MACOSX")) for p in parts)
        ):
            continue
        yield str(folder / member), member


class Archive(Protocol):
    """The files of an archive."""

    def names(self) -> tuple[str, ...]:
        """The files in it, sorted. Raises DataError for an archive that cannot be read."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A file's content, seekable. Raises whatever reading the archive raises, and KeyError for a name not in it."""
        ...


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def open_archive(path: Path) -> Archive:
    """The archive; its content is read when it is asked for."""
    return ZipFiles(path) if path.suffix.lower() == ".zip" else TarFiles(path)


class ZipFiles:
    """A zip."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except Exception as e:  # BadZipFile, OSError, struct.error, UnicodeDecodeError, …
            raise DataError(f"{self.path}: not a readable zip archive ({first_line(e)})") from e

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(i.filename for i in self._archive.infolist() if not i.is_dir()))

    def open(self, name: str) -> BinaryIO:
        return cast(BinaryIO, self._archive.open(name))


class TarFiles:
    """A tar. A compressed one is decompressed once into a temporary file without a name, as its parts cannot be found
    otherwise. Links and devices in it are left out."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _members(self) -> dict[str, tuple[int, int]]:
        """Name -> the place and the length of its content."""
        try:
            with tarfile.open(fileobj=self._content, mode="r:") as archive:
                return {
                    str(PurePosixPath(m.name)): (m.offset_data, m.size)
                    for m in archive
                    if m.isfile() and not m.issparse()
                }
        except (tarfile.TarError, OSError, EOFError, ValueError) as e:
            raise DataError(f"{self.path}: not a readable tar archive ({first_line(e)})") from e

    @cached_property
    def _content(self) -> IO[bytes]:
        openers: dict[str, Callable[..., Any]] = {
            ".gz": gzip.open,
            ".tgz": gzip.open,
            ".bz2": bz2.open,
            ".xz": lzma.open,
        }
        opener = openers.get(self.path.suffix.lower())
        if opener is None:
            file = self.path.open("rb")
            finalize(self, file.close)
            return file
        plain = tempfile.TemporaryFile(prefix="vlrft-")  # noqa: SIM115 (open as long as the archive)
        finalize(self, plain.close)
        try:
            with opener(self.path, "rb") as packed:
                while chunk := packed.read(CHUNK):
                    plain.write(chunk)
                    if plain.tell() > MAX_UNPACKED:
                        raise OSError(f"more than {MAX_UNPACKED:,} bytes when decompressed")
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as e:
            raise DataError(f"{self.path}: not a readable archive ({first_line(e)})") from e
        plain.seek(0)
        return plain

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._members))

    def open(self, name: str) -> BinaryIO:
        start, length = self._members[name]
        return io.BufferedReader(_Part(self._content.fileno(), start, length))


class _Part(io.RawIOBase):
    """A part of an open file, read without moving the file's own position: several threads read pictures."""

    def __init__(self, file: int, start: int, length: int) -> None:
        self.file, self.start, self.length, self.place = file, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: self.length}[whence]
        self.place = max(0, base + offset)
        return self.place

    def readinto(self, buffer: Any, /) -> int:
        most = max(0, min(len(buffer), self.length - self.place))
        content = os.pread(self.file, most, self.start + self.place)
        buffer[: len(content)] = content
        self.place += len(content)
        return len(content)
