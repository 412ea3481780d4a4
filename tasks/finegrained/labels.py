"""Labelled images, whichever way they lie, and the few of each class that training takes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from vlrft.data import Defect, Picture, Row, Source, parse_picture, read_file, strip_answer_tag
from vlrft.schema import DataError

Name = Literal["flowers102", "pets37", "fgvc_aircraft100", "cars196"]
HOMES: Mapping[str, str] = {
    "flowers102": "laolao77/ViRFT_CLS_flower_4_shot",
    "pets37": "laolao77/ViRFT_CLS_pets37_4shot",
    "fgvc_aircraft100": "laolao77/ViRFT_CLS_fgvc_aircraft_4_shot",
    "cars196": "laolao77/ViRFT_CLS_car196_4shot",
}
PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif"}
TABLES = {".parquet", ".arrow", ".jsonl", ".json", ".csv"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which set, where it is, how many examples."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Name = "flowers102"
    data: str | None = None
    """A folder, zip, table or hub id; Visual-RFT's training set on the hub unless given. The test
    split has no home."""
    k: int | None = 4
    """Training images a class; None: all. A prepared folder holds those that it was prepared with."""
    seed: int = 0
    """Draws the training images."""
    prompt: Literal["clean", "released"] = "clean"

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ValueError(f"k {self.k}: use 1 or more images a class, or null for all")


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """An image and the name of its class."""

    id: str
    picture: Picture
    name: str
    problem: str = ""


def classes(source: Source, dataset: str) -> tuple[str, ...]:
    """The names of the set's classes in the order of its labels, from `DATASET_classes.txt` or
    `classes.txt` of the source; none where it has no such file."""
    wanted = (f"{dataset}_classes.txt", "classes.txt")
    found = [n for w in wanted for n in source.names() if PurePosixPath(n).name == w]
    for name in (*found, *wanted):  # a table given by itself may have its list beside it
        try:
            lines = read_file(source, name).decode("utf-8").splitlines()
        except DataError:
            continue
        return tuple(line.strip() for line in lines if line.strip())
    return ()


def name_key(name: str) -> str:
    """A class name as names are compared: case, spaces, underscores and hyphens do not matter."""
    return "".join(c for c in name.casefold() if not c.isspace() and c not in "_-")


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The split's images; of training `k` a class. Raises DataError for a class with fewer."""
    found = list(_labelled(source, split, options.dataset))
    taken = set(_few(found, options)) if split == "train" and options.k is not None else None
    for k, item in enumerate(found):
        if isinstance(item, Defect):
            yield item
        elif taken is None or k in taken:
            yield Row(
                id=item.id,
                question=options.dataset,
                answer=item.name,
                pictures=(item.picture,),
                tags={"answer": "choice", "dataset": options.dataset},
                info={"split": split, "problem": item.problem},
            )


def _few(found: list[Labelled | Defect], options: Options) -> Iterator[int]:
    by_class: dict[str, list[int]] = {}
    for k, item in enumerate(found):
        if isinstance(item, Labelled):
            by_class.setdefault(item.name, []).append(k)
    for name, places in sorted(by_class.items()):
        if len(places) < (options.k or 0):
            raise DataError(f"class {name!r} has {len(places)} images, fewer than k {options.k}")
        yield from random.Random(f"{options.dataset} {options.seed} {name}").sample(
            places, options.k or 0
        )


def _labelled(source: Source, split: str, dataset: str) -> Iterator[Labelled | Defect]:
    listed = classes(source, dataset)
    known = {_folder_key(name): name for name in listed}
    names = source.names()
    if not names or any(_is_table(n, split) for n in names):
        own = f"{dataset}_{split}"  # in a folder with the tables of several sets
        table = own if any(PurePosixPath(n).stem == own for n in names) else split
        yield from _of_table(source, table, split, listed, known)
        return
    for name in names:
        path = PurePosixPath(name)
        if path.suffix.lower() in PICTURES and split in path.parts[:-2]:
            own = path.parts[-2]
            shown = known.get(_folder_key(own)) if known else own.replace("_", " ")
            if shown is None:
                yield Defect(id=name, reason="folder is no class", detail=path.parts[-2])
            else:
                yield Labelled(id=name, picture=_file(source, name), name=shown)


def _of_table(
    source: Source, table: str, split: str, listed: tuple[str, ...], known: Mapping[str, str]
) -> Iterator[Labelled | Defect]:
    files: dict[str, list[str]] = {}
    for name in source.names():
        files.setdefault(PurePosixPath(name).name, []).append(name)
    for number, cells in enumerate(source.rows(table)):
        shown = cells.get("image")
        name = shown if isinstance(shown, str) else f"{split}/{number}"
        try:
            found = _placed(shown, source, files, split) if isinstance(shown, str) else None
            yield Labelled(
                id=name,
                picture=found or parse_picture(shown, source, name),
                name=_class_of(cells, listed, known),
                problem=str(cells.get("problem") or ""),
            )
        except DataError as e:
            yield Defect(id=name, reason="incomplete row", detail=str(e))


def _class_of(cells: Mapping[str, Any], names: tuple[str, ...], known: Mapping[str, str]) -> str:
    """By its place in the list or by its name; any name where there is no list. Raises DataError."""
    given = next((cells[c] for c in ("label", "solution", "class") if cells.get(c) is not None), "")
    text = str(strip_answer_tag(given)).strip()
    if text.isascii() and text.isdigit() and "label" in cells:
        if not names:
            raise DataError("labels are numbers: list the names in classes.txt, label 0 first")
        if int(text) < len(names):
            return names[int(text)]
    elif not known and text:
        return text
    if _folder_key(text) not in known:
        raise DataError(f"{text!r} is no class of the set")
    return known[_folder_key(text)]


def _placed(name: str, source: Source, files: Mapping[str, list[str]], split: str) -> Picture:
    """The file that the name is the end of. Where there is none, reading the picture tells: graders
    need none. Raises DataError where there are several, none of them alone in a folder of the split."""
    ends = [f for f in files.get(PurePosixPath(name).name, ()) if f"/{f}".endswith(f"/{name}")]
    if len(ends) > 1:
        ends = [f for f in ends if split in f.replace("_", "/").split("/")] or ends
    if len(ends) > 1:
        raise DataError(f"{name!r} is in several places, such as {ends[0]!r} and {ends[1]!r}")
    return _file(source, ends[0] if ends else name)


def _file(source: Source, name: str) -> Picture:
    return Picture(name=name, read=lambda: read_file(source, name))


def _is_table(name: str, split: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in TABLES and split in path.stem.replace("-", "_").split("_")


def _folder_key(name: str) -> str:
    """Names of folders have no slash."""
    return name_key(name).replace("/", "")
