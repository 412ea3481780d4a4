"""The authors' folders of the four datasets, and CoOp's lists of their images."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from vlrft.data import Defect, PictureFinder, Source, notes_of, parse_json, read_file
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

from .class_list import official_classes
from .options import Labelled, Options

Items = Iterable[tuple[str, str]]
"""The path of an image and its class: a name, or a number from 1."""

PETS = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}
AIRCRAFT = {
    "train": ("images_variant_trainval.txt", "images_variant_train.txt", "images_variant_val.txt"),
    "test": ("images_variant_test.txt",),
}
FLOWERS = {"train": "trnid", "test": "tstid"}
CARS = {
    "train": ("devkit/cars_train_annos.mat", "cars_train"),
    "test": ("cars_test_annos_withlabels.mat", "cars_test"),
}


def find_file(source: Source, *names: str) -> str:
    """The first file whose path ends with one of the names; empty without any."""
    return next((n for end in names for n in source.names() if f"/{n}".endswith(f"/{end}")), "")


def read_items(
    items: Items, source: Source, split: str, dataset: str
) -> Iterator[Labelled | Defect]:
    classes, finder = official_classes(dataset), PictureFinder(source, split)
    for path, label in items:
        yield label_picture(path, classes.spell(label), label, finder)


def label_picture(
    path: str, class_name: str | None, label: str, finder: PictureFinder
) -> Labelled | Defect:
    """The image at a path, named by its file; a defect for one that may be several files, and for a label of no class."""
    name = PurePosixPath(path).name
    if class_name is None:
        return Defect(id=name, reason="not a class of the dataset", detail=label)
    try:
        picture = finder.find(path, name)
    except DataError as e:
        return Defect(id=name, reason="image missing or unreadable", detail=str(e))
    return Labelled(id=name, picture=picture, name=class_name)


def pets(source: Source, split: str) -> Items:
    """`Abyssinian_201 1 1 1`: the image, whose name is that of its breed and a number, and three numbers."""
    for line in _lines(source, find_file(source, PETS[split])):
        image = line.split(" ")[0]
        yield f"images/{image}.jpg", image.rpartition("_")[0]


def aircraft(source: Source, split: str) -> Items:
    """`1514522 707-320`: the image and the name of its variant. The training images are those of `trainval`."""
    first, *parts = AIRCRAFT[split]
    files = [find_file(source, first)] if find_file(source, first) else _all(source, parts)
    for line in (line for file in files for line in _lines(source, file)):
        image, _, variant = line.partition(" ")
        yield f"images/{image}.jpg", variant


def flowers(source: Source, split: str) -> Items:
    """`setid.mat` has the numbers of a split's images, `imagelabels.mat` the class of each, from 1."""
    numbers = _mat(source, find_file(source, "setid.mat"), FLOWERS[split])
    labels = _mat(source, find_file(source, "imagelabels.mat"), "labels")
    if split == "test":
        notes_of(source).append(
            "the test split is the authors' (6,149 images); the published results are of the 2,463 in CoOp's "
            "split_zhou_OxfordFlowers.json"
        )
    for number in map(int, numbers.ravel()):
        if not 0 < number <= labels.size:
            raise DataError(f"{source.label}: setid.mat has image {number} of {labels.size}")
        yield f"jpg/image_{number:05}.jpg", str(int(labels.ravel()[number - 1]))


def cars(source: Source, split: str) -> Items:
    """Structs with the name of an image (`fname`) and its class, from 1."""
    file, folder = CARS[split]
    for row in _mat(source, find_file(source, file), "annotations").ravel():
        yield f"{folder}/{_text(row['fname'])}", str(int(_text(row["class"])))


def coop(source: Source, split: str) -> Items:
    """`{"train": [[path, label from 0, class name], …], "val": …, "test": …}`."""
    name = _coop_file(source)
    tree = parse_json(read_file(source, name).decode("utf-8", "replace"), name)
    rows = tree.get(split) if isinstance(tree, dict) else None
    if not isinstance(rows, list):
        raise DataError(f"{source.label}: {name} has no list {split!r}")
    for row in rows:
        if not isinstance(row, list) or len(row) != 3:
            raise DataError(f"{source.label}: {name}: {row!r} is not a path, a label and a name")
        yield str(row[0]), str(row[2])


def _coop_file(source: Source) -> str:
    names = (n for n in source.names() if PurePosixPath(n).match("split_zhou_*.json"))
    return next(names, "")


def _all(source: Source, names: Iterable[str]) -> list[str]:
    return list(filter(None, (find_file(source, name) for name in names)))


def _lines(source: Source, name: str) -> Iterator[str]:
    for line in read_file(source, name).decode("utf-8", "replace").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def _mat(source: Source, name: str, variable: str) -> Any:
    """A variable of a MATLAB file. Raises DataError without it, and for a file that cannot be read."""
    from scipy.io import loadmat

    try:
        return loadmat(io.BytesIO(read_file(source, name)), variable_names=[variable])[variable]
    except DataError:
        raise
    except Exception as e:  # MatReadError, KeyError, zlib.error, …
        problem = f"{source.label}: cannot read {variable} of {name} ({first_line(e)})"
        raise DataError(problem) from e


def _text(cell: Any) -> str:
    """The one value of a cell of a struct, which MATLAB wraps in arrays."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return str(cell)


READERS: Mapping[str, tuple[Callable[[Source, str], Items], Mapping[str, tuple[str, ...]]]] = {
    "pets37": (pets, {split: (name,) for split, name in PETS.items()}),
    "fgvc_aircraft100": (aircraft, {split: names[:2] for split, names in AIRCRAFT.items()}),
    "flowers102": (flowers, dict.fromkeys(FLOWERS, ("setid.mat",))),
    "cars196": (cars, {split: (name,) for split, (name, _) in CARS.items()}),
}
"""Dataset -> its reader, and for each split the files of which one tells its folder."""


def has_official(source: Source, split: str, options: Options) -> bool:
    return bool(find_file(source, *READERS[options.dataset][1][split]))


def read_official(source: Source, split: str, options: Options) -> Iterator[Labelled | Defect]:
    items = READERS[options.dataset][0](source, split)
    return read_items(items, source, split, options.dataset)


def has_coop(source: Source, split: str, options: Options) -> bool:
    return bool(_coop_file(source))


def read_coop(source: Source, split: str, options: Options) -> Iterator[Labelled | Defect]:
    return read_items(coop(source, split), source, split, options.dataset)
