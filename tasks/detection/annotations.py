"""Rows of detection from a COCO annotation file: the pictures and the categories that each is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from vlrft.data import Defect, PictureFinder, Row, Source, open_source, read_row
from vlrft.data.coco_file import (
    CocoFile,
    CocoImage,
    clip,
    coco_files,
    read_coco_file,
    split_words,
)
from vlrft.schema import DataError
from vlrft.vision.images import open_size

from .options import TEST_CATEGORIES, Options
from .targets import Target, make_row

PRESENT, ALL = "present", "all"  # values of options.ask that are no file
WORDS = {"train": {"train"}, "test": {"val", "valid", "validation", "test"}}

Asks = Callable[[CocoImage], Sequence[str]]  # picture -> the categories that it is asked for


def find_annotations(source: Source, split: str) -> str | None:
    """The annotation file of a split, whose path has a word for it: `instances_val2017.json`, `valid/_annotations.coco.json`.
    A file given alone is of the training split where its name has none."""
    files = coco_files(source)
    for name in files:
        words = set(split_words(name))
        if words & WORDS[split]:
            return name
        if len(source.names()) == 1 and split == "train" and not words & WORDS["test"]:
            return name
    return None


def read_annotated(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """A row for each picture and each category that it is asked for."""
    name = find_annotations(source, split)
    if name is None:
        raise DataError(f"{source.label}: no annotation file of the {split} split")
    file = read_coco_file(source, name)
    yield from file.defects
    pictures = open_source(options.images) if options.images else source
    finder = PictureFinder(pictures, _folder_of(name))
    chosen, asks = _asked_categories(file, split, options)
    missed = Missed.of(file, chosen, asks) if options.ask not in (PRESENT, ALL) else Missed()
    for category in missed.never_asked:
        yield Defect(
            id=f"{split}/{category}", reason="a category that is never asked for", intended=True
        )
    for image in file.images:
        label = f"{split}/{image.id}"
        size = read_row(label, partial(_size, image, finder, label))
        if isinstance(size, Defect):
            yield size
            continue
        for category in asks(image):
            name = f"{label}/{category}"
            others = missed.by_row.get((image.id, category), [])

            def make(
                image: CocoImage = image,
                category: str = category,
                name: str = name,
                size: tuple[int, int] = size,
                others: Sequence[Sequence[Target]] = others,
            ) -> Row:
                targets = _targets(file, image, category, size)
                picture = finder.find(image.file, name)
                return make_row(name, split, picture, size, category, targets, missed=others)

            yield read_row(name, make)


def _folder_of(name: str) -> str:
    """The folder of the pictures that an annotation file means where there are several: `val2017` for
    `annotations/instances_val2017.json`, `valid` for `valid/_annotations.coco.json`."""
    path = PurePosixPath(name)
    last = path.stem.rpartition("_")[2]
    return last if set(split_words(last)) & (WORDS["train"] | WORDS["test"]) else path.parent.name


@dataclass(frozen=True, kw_only=True)
class Missed:
    """Objects that no row asks for, as their picture is not asked for their category. They belong to the category's next row,
    so that the first rows of a split have the objects of the first pictures."""

    by_row: Mapping[tuple[int | str, str], list[list[Target]]] = field(
        default_factory=dict[tuple[int | str, str], list[list[Target]]]
    )
    never_asked: tuple[str, ...] = ()

    @staticmethod
    def of(file: CocoFile, chosen: Sequence[str], asks: Asks) -> Missed:
        by_row: dict[tuple[int | str, str], list[list[Target]]] = {}
        waiting: dict[str, list[list[Target]]] = {category: [] for category in chosen}
        last: dict[str, tuple[int | str, str]] = {}
        for image in file.images:
            asked = asks(image)
            for category in chosen:
                if category in asked:
                    last[category] = (image.id, category)
                    by_row[last[category]] = waiting[category]
                    waiting[category] = []
                elif targets := _targets(file, image, category, None):
                    waiting[category].append(targets)
        for category, rest in waiting.items():
            if category in last:
                by_row[last[category]] += rest
        never = (category for category, rest in waiting.items() if rest and category not in last)
        return Missed(by_row=by_row, never_asked=tuple(never))


def _targets(
    file: CocoFile, image: CocoImage, category: str, size: tuple[int, int] | None
) -> list[Target]:
    """The objects of a category in a picture. Raises DataError for a box outside it."""
    targets: list[Target] = []
    for one in file.objects.get(image.id, ()):
        if one.category == category:
            box = one.box if size is None else clip(one.box, size)
            if box is None:
                raise DataError(f"its box {one.box} is outside the picture of {size} pixels")
            targets.append(Target(box=box, area=one.area, crowd=one.crowd))
    return targets


def _size(image: CocoImage, finder: PictureFinder, label: str) -> tuple[int, int]:
    if image.size is not None:
        return image.size
    picture = finder.find(image.file, label)
    return open_size(picture.read(), picture.name)


def _asked_categories(file: CocoFile, split: str, options: Options) -> tuple[list[str], Asks]:
    """The categories that matter, in the order of the file, and those of them that a picture is asked for. Raises DataError
    for a category that the file has not."""
    wanted = options.categories or (TEST_CATEGORIES[options.dataset] if split == "test" else None)
    if unknown := [c for c in wanted or () if c not in file.categories]:
        some = ", ".join(file.categories[:12])
        raise DataError(
            f"no category {unknown[0]!r} among those of the annotation file: {some}, …; set options.categories"
        )
    chosen = [c for c in file.categories if wanted is None or c in wanted]
    stored = None if options.ask in (PRESENT, ALL) else _read_map(options.ask)

    def asks(image: CocoImage) -> list[str]:
        if options.ask == ALL:
            return chosen
        there: Sequence[str] = [one.category for one in file.objects.get(image.id, ())]
        if stored is not None:
            there = stored.get(str(image.id), ())
        return [c for c in chosen if c in there]

    return chosen, asks


def _read_map(path: str) -> Mapping[str, Sequence[str]]:
    try:
        tree = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as e:
        raise DataError(
            f"options.ask: {path}: neither present, all nor a file ({e.strerror})"
        ) from e
    except ValueError as e:
        raise DataError(f"options.ask: {path}: not JSON ({e})") from e
    if not isinstance(tree, dict) or not all(isinstance(v, list) for v in tree.values()):
        raise DataError(f"options.ask: {path}: expected picture id -> list of names")
    return tree
