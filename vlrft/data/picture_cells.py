"""Pictures that the cells of a table give: bytes, `{"bytes", "path"}`, a data URL, a path, which may omit leading folders, or
any of these as an image part in Qwen's form, `{"type": "image", "image": …, "max_pixels": …}`."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any

from vlrft.data.download import WEB, download
from vlrft.data.pictures import parse_picture, read_file, resize_picture
from vlrft.data.row import Picture
from vlrft.data.source import Source
from vlrft.schema import DataError
from vlrft.vision.qwen_messages import is_image_part, read_image_part

DATA_URL = "data:image"  # of any format; Qwen's examples name none
FILE_URL = "file://"
BASE64 = ("/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk0", "SUkq", "TU0A")
"""How the base64 of JPEG, PNG, GIF, WEBP, BMP and TIFF begins."""
LONGEST_PATH = 1000  # characters; a longer text may be base64
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def names_picture(text: str) -> bool:
    """Whether a text is the name of a picture's file, a URL or a picture in base64."""
    known = text.startswith((DATA_URL, FILE_URL, *WEB)) or _is_base64(text)
    return known or PurePosixPath(text).suffix.lower() in SUFFIXES


def _is_base64(text: str) -> bool:
    return len(text) > LONGEST_PATH and text.startswith(BASE64)


@dataclass(frozen=True)
class PictureFinder:
    """Finds the pictures of the cells of a split among the files of a source."""

    source: Source
    split: str
    """Of several files of a name, the one in a folder of this name is meant."""
    urls: bool = False
    """Pictures that are URLs are downloaded, each time that they are read."""
    present: bool = False
    """A file that is not there is missed when it is found, not when the picture is read."""

    def find_all(self, cell: Any, name: str) -> tuple[Picture, ...]:
        """The pictures of a cell that has one, or a list of them. Raises DataError; `name`: of the row."""
        cells = cell if isinstance(cell, list | tuple) else [cell]
        return tuple(self.find(item, name) for item in cells)

    def find(self, cell: Any, name: str) -> Picture:
        """The picture of a cell. Raises DataError for a cell without one, and for a path that may be several files; a file
        that is not there is missed when the picture is read."""
        if isinstance(cell, str) and cell.startswith(DATA_URL):
            return parse_picture(_decode(cell.partition(",")[2], name), self.source, name)
        if isinstance(cell, Mapping) and is_image_part(cell):
            image = read_image_part(cell, name)
            return resize_picture(self.find(image.value, name), image.sizes, name)
        if not isinstance(cell, str) or not cell:
            if isinstance(cell, Mapping) and cell.get("bytes") is None and cell.get("path"):
                return self.find(cell["path"], name)
            return parse_picture(cell, self.source, name)
        if _is_base64(cell):
            return parse_picture(_decode(cell, name), self.source, name)
        if cell.startswith(WEB):
            if not self.urls:
                raise DataError(
                    f"{name}: its picture is a URL, {cell[:200]}; URLs are downloaded only with options.urls=true"
                )
            return Picture(name=cell, read=lambda: download(cell))
        cell = cell.removeprefix(FILE_URL)
        if "\\" in cell and _file_key(cell) not in self.files:
            cell = cell.replace("\\", "/")  # written on Windows
        path = best_match(cell, self.split, self.files.get(_file_key(cell), []))
        if self.present:
            try:
                self.source.open(path).close()
            except DataError as e:
                raise DataError(
                    f"{e}; where pictures lie elsewhere, options.images is their folder"
                ) from e
        return Picture(name=path, read=lambda: read_file(self.source, path))

    @cached_property
    def files(self) -> dict[str, list[str]]:
        """Key of a file's name without folders -> the paths of the files with that name."""
        paths: dict[str, list[str]] = {}
        for path in self.source.names():
            paths.setdefault(_file_key(path), []).append(path)
        return paths


def _file_key(path: str) -> str:
    """The name of the file, with accents as part of their letters: file systems and archives may have them apart. One that is
    too long for a file's stays as it is."""
    name = PurePosixPath(path).name
    return unicodedata.normalize("NFC", name) if len(name) <= LONGEST_PATH else name


def _decode(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise DataError(f"{name}: its picture is not base64 ({e})") from e


def best_match(path: str, split: str, candidates: Sequence[str]) -> str:
    """The candidate that shares the most trailing folders with the path; of several, the one in a folder of the split, such as
    `test/` or `cars_test/`.

    `candidates`: the source's files of that name. Without any, the path itself. Raises DataError if several match.
    """
    shared = {name: _shared_parts(path, name) for name in candidates}
    best = [name for name in candidates if shared[name] == max(shared.values())]
    if len(best) > 1:
        of_split = [
            name for name in best if split in re.split(r"[/_-]", str(PurePosixPath(name).parent))
        ]
        if len(of_split) != 1:
            raise DataError(f"{path} may be {best[0]} or {best[1]}")
        return of_split[0]
    return best[0] if best else path


def _shared_parts(one: str, other: str) -> int:
    """The number of equal parts at the end of two paths."""
    pairs = zip(
        reversed(PurePosixPath(one).parts), reversed(PurePosixPath(other).parts), strict=False
    )
    return sum(1 for _ in takewhile(lambda pair: _file_key(pair[0]) == _file_key(pair[1]), pairs))
