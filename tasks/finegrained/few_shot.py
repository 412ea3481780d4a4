"""The rows of the pack: for training, a few images of each class."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from vlrft.data import Defect, Layout, Row, Source, notes_of
from vlrft.schema import DataError

from .class_list import official_classes
from .options import Labelled, Options

SHOWN = 5  # names in messages
Read = Callable[[Source, str, Options], Iterable[Labelled | Defect]]


def layout(
    name: str, found: Callable[[Source, str, Options], bool], read: Read, **more: Any
) -> Layout:
    """A layout whose labelled images become the pack's rows. `more`: fields of `Layout`."""
    return Layout(name=name, found=found, read=partial(read_rows, read), **more)


def read_rows(read: Read, source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The split's images; for training `k` of each class. A class with fewer is left out: a misspelt label is one, too."""
    items = list(read(source, split, options))
    _check_names(items, source, options.dataset)
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
            detail = (
                f"class {item.name!r} has {count} images, fewer than k {k}; options.k=null uses all"
            )
            yield Defect(id=item.id, reason="class with too few images", detail=detail)


def _check_names(items: Iterable[Labelled | Defect], source: Source, dataset: str) -> None:
    """Notes the names that are none of the dataset's. Raises DataError where all of them are: the prompt would ask for the
    species of a plant."""
    names = sorted({item.name for item in items if isinstance(item, Labelled)})
    classes = official_classes(dataset)
    unknown = [name for name in names if classes.spell(name) is None]
    listed = ", ".join(map(repr, unknown[:SHOWN])) + " …" * (len(unknown) > SHOWN)
    if unknown and len(unknown) == len(names):
        raise DataError(
            f"{source.label}: {listed} are no classes of {dataset}; set options.dataset to another, or, for classes of your "
            "own, use the task table: vlrft train table task.options.data=… task.options.answer=class"
        )
    if unknown:
        notes_of(source).append(
            f"{len(unknown)} of {len(names)} class names are none of {dataset}'s, and kept as they are: {listed}"
        )


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
