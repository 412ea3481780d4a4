"""Labelled images in any of the raw forms, and the few of each class that training uses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from vlrft.data import (
    Cells,
    Defect,
    Picture,
    Row,
    Source,
    number_rows,
    parse_picture,
    read_file,
    read_row,
    strip_answer_tag,
)
from vlrft.schema import DataError
from vlrft.schema.ranges import Positive, Seed

Name = Literal["flowers102", "pets37", "fgvc_aircraft100", "cars196"]
HUB_IDS: Mapping[str, str] = {
    "flowers102": "laolao77/ViRFT_CLS_flower_4_shot",
    "pets37": "laolao77/ViRFT_CLS_pets37_4shot",
    "fgvc_aircraft100": "laolao77/ViRFT_CLS_fgvc_aircraft_4_shot",
    "cars196": "laolao77/ViRFT_CLS_car196_4shot",
}
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"}
TABLE_SUFFIXES = {".parquet", ".arrow", ".jsonl", ".json", ".csv"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The dataset, its source, and the number of examples."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Name = "flowers102"
    data: str | None = None
    """A folder, zip, table or hub id; Visual-RFT's training set on the hub unless given. The test split is not there."""
    k: Positive | None = 4
    """Training images of each class; None: all. Used when the data are prepared: a prepared folder keeps its images."""
    seed: Seed = 0
    """Of the draw of the training images."""
    prompt: Literal["clean", "released"] = "clean"


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """An image with the name of its class."""

    id: str
    picture: Picture
    name: str
    problem: str = ""


def read_classes(source: Source, dataset: str) -> tuple[str, ...]:
    """The class names in the order of the labels, from `DATASET_classes.txt` or `classes.txt` of the source; empty if it
    has no such file."""
    file_names = (f"{dataset}_classes.txt", "classes.txt")
    paths = [n for f in file_names for n in source.names() if PurePosixPath(n).name == f]
    for name in (*paths, *file_names):  # a single table may have its list next to it
        try:
            content = read_file(source, name)
        except DataError:
            continue
        try:
            lines = content.decode("utf-8").splitlines()
        except UnicodeDecodeError as e:
            raise DataError(f"{source.label}: {name}: not UTF-8 at byte {e.start}") from e
        return tuple(line.strip() for line in lines if line.strip())
    return ()


def name_key(name: str) -> str:
    """The class name without case, spaces, underscores and hyphens, for comparison."""
    return "".join(c for c in name.casefold() if not c.isspace() and c not in "_-")


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The split's images; for training `k` of each class. A class with fewer is left out: a misspelt label is one, too."""
    items = list(_read_labelled(source, split, options.dataset))
    k = options.k if split == "train" else None
    drawn = None if k is None else _draw_few(items, k, options)
    for number, item in enumerate(items):
        if isinstance(item, Defect):
            yield item
        elif drawn is None or number in drawn.selected:
            yield Row(
                id=item.id,
                question=options.dataset,
                answer=item.name,
                pictures=(item.picture,),
                tags={"answer": "choice", "dataset": options.dataset},
                info={"split": split, "problem": item.problem},
            )
        elif item.name in drawn.too_few:
            count = drawn.too_few[item.name]
            detail = f"class {item.name!r} has {count} images, fewer than k {k}"
            yield Defect(id=item.id, reason="class with too few images", detail=detail)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The images that training uses, by index, and the classes that have too few, with their numbers of images."""

    selected: set[int]
    too_few: Mapping[str, int]


def _draw_few(items: list[Labelled | Defect], k: int, options: Options) -> Drawn:
    """`k` images of each class."""
    by_class: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        if isinstance(item, Labelled):
            by_class.setdefault(item.name, []).append(number)
    selected: set[int] = set()
    for name, numbers in by_class.items():
        if len(numbers) >= k:
            draw = random.Random(f"{options.dataset} {options.seed} {name}")
            selected.update(draw.sample(numbers, k))
    too_few = {name: len(numbers) for name, numbers in by_class.items() if len(numbers) < k}
    return Drawn(selected=selected, too_few=too_few)


def _read_labelled(source: Source, split: str, dataset: str) -> Iterator[Labelled | Defect]:
    class_names = read_classes(source, dataset)
    by_key = {_folder_key(name): name for name in class_names}
    names = source.names()
    if not names or any(_is_table(n, split) for n in names):
        table = f"{dataset}_{split}"  # in a folder with the tables of several datasets
        table = table if any(PurePosixPath(n).stem == table for n in names) else split
        yield from _read_table(source, table, split, class_names, by_key)
        return
    for name in names:
        path = PurePosixPath(name)
        if path.suffix.lower() in IMAGE_SUFFIXES and split in path.parts[:-2]:
            folder = path.parts[-2]
            class_name = by_key.get(_folder_key(folder)) if by_key else folder.replace("_", " ")
            if class_name is None:
                yield Defect(id=name, reason="folder is no class", detail=folder)
            else:
                yield Labelled(id=name, picture=_file(source, name), name=class_name)


def _read_table(
    source: Source, table: str, split: str, class_names: tuple[str, ...], by_key: Mapping[str, str]
) -> Iterator[Labelled | Defect]:
    files: dict[str, list[str]] = {}
    for name in source.names():
        files.setdefault(PurePosixPath(name).name, []).append(name)

    def read(cells: Cells, name: str) -> Labelled:
        image = cells.get("image")
        file = _find_file(image, source, files, split) if isinstance(image, str) else None
        return Labelled(
            id=name,
            picture=file or parse_picture(image, source, name),
            name=_class_of(cells, class_names, by_key),
            problem=str(cells.get("problem") or ""),
        )

    for number, cells in number_rows(source.rows(table)):
        image = cells.get("image")
        name = image if isinstance(image, str) else f"{split}/{number}"
        yield read_row(name, partial(read, cells, name))


def _class_of(cells: Cells, class_names: tuple[str, ...], by_key: Mapping[str, str]) -> str:
    """The class of a row, given by its index in the list or by its name; without a list any name is accepted.

    Raises DataError for any other label.
    """
    label = next((cells[c] for c in ("label", "solution", "class") if cells.get(c) is not None), "")
    text = str(strip_answer_tag(label)).strip()
    if text.isascii() and text.isdigit() and "label" in cells:
        if not class_names:
            raise DataError("labels are numbers: list the names in classes.txt, label 0 first")
        if int(text) < len(class_names):
            return class_names[int(text)]
    elif not by_key and text:
        return text
    if _folder_key(text) not in by_key:
        raise DataError(f"{text!r} is not a class of the dataset")
    return by_key[_folder_key(text)]


def _find_file(name: str, source: Source, files: Mapping[str, list[str]], split: str) -> Picture:
    """The file whose path ends with the name.

    A missing file is an error only when the picture is read, as graders need none. Raises DataError if there are several
    files, and not exactly one in a folder of the split.
    """
    matches = [f for f in files.get(PurePosixPath(name).name, ()) if f"/{f}".endswith(f"/{name}")]
    if len(matches) > 1:
        matches = [f for f in matches if split in f.replace("_", "/").split("/")] or matches
    if len(matches) > 1:
        raise DataError(f"{name!r} is in several places, such as {matches[0]!r} and {matches[1]!r}")
    return _file(source, matches[0] if matches else name)


def _file(source: Source, name: str) -> Picture:
    return Picture(name=name, read=lambda: read_file(source, name))


def _is_table(name: str, split: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in TABLE_SUFFIXES and split in path.stem.replace("-", "_").split("_")


def _folder_key(name: str) -> str:
    """The key of a class name without slashes, as names of folders have none."""
    return name_key(name).replace("/", "")
