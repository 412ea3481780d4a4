"""Folders of pictures, one for each class: `train/dog/1.jpg` or `dog/1.jpg`, as torchvision's and datasets' ImageFolder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vlrft.data import Defect, read_row
from vlrft.data.picture_cells import SUFFIXES
from vlrft.data.split_rows import table_names
from vlrft.schema import DataError

from ..entry import Entry, Raw, Reading, Taken
from ..splits import KNOWN, YEAR
from ._places import refuse_columns

if TYPE_CHECKING:
    from ..options import Options


class ImageFolder:
    """The class of a picture is the folder that it is in; the split, if any, is a folder above."""

    name = "imagefolder"
    doc = "ImageFolder: a folder of pictures for each class, in folders train, test, … if there are splits"

    def recognises(self, raw: Raw) -> str:
        if raw.head or table_names(raw.source):
            return ""
        classes = _classes(raw)
        return f"folders of pictures: {', '.join(classes[:5])}" if len(classes) > 1 else ""

    def read(self, raw: Raw, options: Options) -> Reading:
        refuse_columns(raw, options, self.name)
        classes = _classes(raw)
        if not _pictures(raw):
            raise DataError(
                f"{raw.source.label}: no pictures in folders of classes (train/dog/1.jpg)"
                + (f" below {raw.split}" if raw.split else "")
            )

        def entries() -> Iterator[Entry | Defect]:
            for path in _pictures(raw):
                name = path.as_posix()

                def make(path: PurePosixPath = path, name: str = name) -> Entry:
                    picture = raw.finder.find(name, name)
                    return Entry(id=name, pictures=(picture,), answer=path.parent.name)

                yield read_row(name, make)

        taken = Taken(role="gold answer", place=", ".join(classes[:8]), why="names of folders")
        return Reading(entries=entries, kind="class", classes=classes, taken=(taken,))


def _all_pictures(raw: Raw) -> list[PurePosixPath]:
    paths = map(PurePosixPath, raw.source.names())
    found = (p for p in paths if p.suffix.lower() in SUFFIXES and len(p.parts) > 1)
    return [p for p in found if YEAR.sub("", p.parent.name.lower()) not in KNOWN]


def _pictures(raw: Raw) -> list[PurePosixPath]:
    """The pictures of the split, in the order of their paths."""
    paths = _all_pictures(raw)
    return [p for p in paths if raw.split is None or raw.split in p.parts[:-2]]


def _classes(raw: Raw) -> tuple[str, ...]:
    """The names of the folders of all splits, sorted, which are numbered in this order by ImageFolder."""
    return tuple(sorted({p.parent.name for p in _all_pictures(raw)}))


FORMAT = ImageFolder()
