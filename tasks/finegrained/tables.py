"""Labelled images of tables, and of folders that are named after classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

from vlrft.data import (
    Cells,
    Defect,
    Picture,
    PictureFinder,
    Source,
    has_tables,
    number_rows,
    parse_picture,
    read_file,
    read_row,
    strip_answer_tag,
)
from vlrft.data.class_names import ClassName
from vlrft.schema import DataError

from .class_list import ClassList, read_classes
from .options import Labelled, Options

LABEL_COLUMNS = ("label", "solution", "class", "variant", "class_name")
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"}


def has_table(source: Source, split: str, options: Options) -> bool:
    return has_tables(source, split)


def read_table(source: Source, split: str, options: Options) -> Iterator[Labelled | Defect]:
    """The rows of the split's tables, or of the dataset's in a folder with the tables of several."""
    classes = read_classes(source, options.dataset)
    table = f"{options.dataset}_{split}"
    table = table if any(PurePosixPath(n).stem == table for n in source.names()) else split
    finder = PictureFinder(source, split)

    def read(cells: Cells, name: str) -> Labelled:
        image = cells.get("image")
        is_path = isinstance(image, str)
        return Labelled(
            id=name,
            picture=finder.find(image, name) if is_path else parse_picture(image, source, name),
            name=class_of(cells, classes),
            problem=str(cells.get("problem") or ""),
        )

    for number, cells in number_rows(source.rows(table)):
        image = cells.get("image")
        name = image if isinstance(image, str) else f"{split}/{number}"
        yield read_row(name, partial(read, cells, name))


def class_of(cells: Cells, classes: ClassList) -> str:
    """The class of a row. A `solution` keeps the data set's own spelling, unless there is a list. Raises DataError."""
    column = next((c for c in LABEL_COLUMNS if cells.get(c) is not None), "")
    if not column:
        raise DataError(f"no {' or '.join(LABEL_COLUMNS)}")
    label = strip_answer_tag(cells[column])
    if column == "label":
        return classes.of_label(label)
    text = str(label).strip()
    return text if column == "solution" and text and not classes.closed else classes.of_name(text)


def has_class_folders(source: Source, split: str, options: Options) -> bool:
    return bool(_class_folders(source, split))


def read_class_folders(source: Source, split: str, options: Options) -> Iterator[Labelled | Defect]:
    classes = read_classes(source, options.dataset)
    for name in _class_folders(source, split):
        folder = PurePosixPath(name).parts[-2]
        try:
            class_name = classes.of_name(ClassName(folder.replace("_", " ")))
        except DataError:
            yield Defect(id=name, reason="folder is no class", detail=folder)
            continue
        picture = Picture(name=name, read=partial(read_file, source, name))
        yield Labelled(id=name, picture=picture, name=class_name)


def _class_folders(source: Source, split: str) -> list[str]:
    """The images below a folder of the split, each in the folder of its class."""
    paths = map(PurePosixPath, source.names())
    return [
        path.as_posix()
        for path in paths
        if path.suffix.lower() in IMAGE_SUFFIXES and split in path.parts[:-2]
    ]
