"""Referring expressions with their boxes, in any of the published forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from vlrft.data import (
    Cells,
    Defect,
    Layout,
    Layouts,
    Picture,
    Row,
    Source,
    number_rows,
    open_source,
    parse_picture,
    read_file,
    read_row,
)
from vlrft.schema import DataError
from vlrft.schema.ranges import Positive
from vlrft.vision.boxes import Box, is_proper
from vlrft.vision.images import open_size

HUB_IDS: Mapping[str, str] = {
    "refcoco": "lmms-lab/RefCOCO",
    "refcoco+": "lmms-lab/RefCOCOplus",
    "refcocog": "lmms-lab/RefCOCOg",
}
ALIASES: Mapping[str, tuple[str, ...]] = {
    "refcoco": ("refcoco",),
    "refcoco+": ("refcocop", "refcoco+", "refcocoplus"),
    "refcocog": ("refcocog",),
}
PREFIX = "Please provide the bounding box coordinate of the region this sentence describes:"
PICKLES = (".p", ".pkl", ".pickle")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The set, its source, its pictures, and how boxes are written."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Literal["refcoco", "refcoco+", "refcocog", "all"] = "refcoco"
    """all: the three sets one after the other, as VLM-R1 trains; needs `data`."""
    data: str | None = None
    """VLM-R1's rec_jsons_processed (folder or zip), a copy of lmms-lab's sets, or a table; lmms-lab's set on the hub unless
    given. Training rows are not on the hub in that form."""
    images: str | None = None
    """The folder or zip of COCO's train2014 pictures, where rows name files; the place of the rows unless given."""
    prompt: Literal["clean", "released"] = "clean"
    """released: VLM-R1's, which asks for JSON; needs `boxes: resized`."""
    boxes: Literal["thousandths", "resized"] = "thousandths"
    """thousandths: as Qwen2-VL writes boxes. resized: pixels of the image as the processor resizes it, as Qwen2.5-VL writes
    them; the two bounds below must be the policy's."""
    min_pixels: Positive = 3136
    """Of `boxes: resized`: the policy.min_pixels of the run."""
    max_pixels: Positive = 802816
    """Of `boxes: resized`: the policy.max_pixels of the run."""

    def __post_init__(self) -> None:
        if self.min_pixels > self.max_pixels:
            raise ValueError(
                f"min_pixels {self.min_pixels}, more than max_pixels {self.max_pixels}"
            )
        if self.prompt == "released" and self.boxes != "resized":
            raise ValueError("the released prompt is for boxes: resized, as Qwen2.5-VL writes them")


def _table(source: Source, dataset: str, split: str) -> str | None:
    """The name of a set's table of a split in VLM-R1's and Qwen-VL's archives, such as `refcocop_val`."""
    stems = {PurePosixPath(name).stem for name in source.names()}
    return next((t for a in ALIASES[dataset] if (t := f"{a}_{split}") in stems), None)


def _is_copy(source: Source, split: str) -> bool:
    """Whether the source is one of lmms-lab's sets: on the hub, copied (`data/val-…`), or saved by datasets (`val/data-…`)."""
    paths = [PurePosixPath(name) for name in source.names()]
    tables = [path for path in paths if path.suffix in (".parquet", ".arrow")]
    names = ((*path.parts[:-1], path.stem.partition("-")[0]) for path in tables)
    return not paths or any(split in words for words in names)


def _datasets(options: Options) -> tuple[str, ...]:
    return tuple(HUB_IDS) if options.dataset == "all" else (options.dataset,)


def _read_files(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    tables = {dataset: _table(source, dataset, split) for dataset in _datasets(options)}
    for dataset, table in tables.items():
        if table is None:
            raise DataError(
                f"{source.label}: no table of {dataset}, {split} split; expected "
                f"{ALIASES[dataset][0]}_{split}.jsonl or .json; options.dataset chooses one set"
            )
    for dataset, table in tables.items():
        yield from _read_rows(source, table or split, dataset, split, options)


def _read_copy(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    if options.dataset == "all":
        raise DataError(f"{source.label}: a copy of one set; set options.dataset")
    yield from _read_rows(source, split, options.dataset, split, options)


def _refuse_pickles(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    name = next(n for n in source.names() if n.lower().endswith(PICKLES))
    raise DataError(
        f"{source.label}: {name} is a pickle, which may run any code when it is opened; give VLM-R1's "
        "rec_jsons_processed.zip (hub: omlab/VLM-R1) or a copy of lmms-lab/RefCOCO"
    )


read = Layouts(
    (
        Layout(
            name="refcoco_SPLIT.jsonl or .json, refcocop_…, refcocog_… (VLM-R1's rec_jsons_processed, Qwen-VL)",
            found=lambda source, split, options: any(
                _table(source, dataset, split) for dataset in _datasets(options)
            ),
            read=_read_files,
        ),
        Layout(
            name="SPLIT-*.parquet (lmms-lab/RefCOCO)",
            found=lambda source, split, options: _is_copy(source, split),
            read=_read_copy,
            splits=("val", "test", "testA", "testB"),
        ),
        Layout(
            name="refs(unc).p is refused: a pickle",
            found=lambda source, split, options: any(
                n.lower().endswith(PICKLES) for n in source.names()
            ),
            read=_refuse_pickles,
        ),
    )
)
"""The rows of a split: one for each expression; a row of lmms-lab's sets holds several of one object."""


def _read_rows(
    source: Source, table: str, dataset: str, split: str, options: Options
) -> Iterator[Row | Defect]:
    pictures = Pictures(open_source(options.images) if options.images else source)
    for number, cells in number_rows(source.rows(table)):
        name = f"{dataset}/{split}/{number}"
        item = read_row(name, partial(_read_expressions, cells, name, pictures))
        if isinstance(item, Defect):
            yield item
            continue
        for k, (expression, problem) in enumerate(item.expressions):
            yield Row(
                id=name if len(item.expressions) == 1 else f"{name}/{k}",
                question=expression,
                answer=list(item.box),
                pictures=(item.picture,),
                tags={"answer": "box", "dataset": dataset},
                info={
                    "split": split,
                    "size": list(item.size),
                    "box": list(item.box),
                    "problem": problem,
                },
            )


@dataclass(frozen=True, kw_only=True)
class Referred:
    """An object of a picture, with the expressions that refer to it, each with the question as the data have it, if any."""

    picture: Picture
    size: tuple[int, int]
    box: Box  # in pixels
    expressions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pictures:
    """Files by their names without folders, which COCO's pictures have no two of, and their sizes."""

    source: Source
    paths: dict[str, str] = field(default_factory=dict[str, str])
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def __post_init__(self) -> None:
        self.paths.update((PurePosixPath(n).name, n) for n in self.source.names())

    def find(self, cell: object, row: str) -> Picture:
        if not isinstance(cell, str):
            return parse_picture(cell, self.source, row)
        path = self.paths.get(PurePosixPath(cell).name)
        if path is None:
            raise DataError(
                f"no picture {cell} in {self.source.label}; give the folder of COCO's pictures with options.images"
            )
        return Picture(name=path, read=lambda: read_file(self.source, path))

    def size(self, picture: Picture, cells: Cells) -> tuple[int, int]:
        """Width and height: as the row states them, else of the file, of which many rows may be."""
        width, height = cells.get("width"), cells.get("height")
        if type(width) is int and type(height) is int and min(width, height) > 0:
            return width, height
        known = self.sizes.get(picture.name)
        if known is None:
            known = self.sizes[picture.name] = open_size(picture.read(), picture.name)
        return known


def _read_expressions(cells: Cells, name: str, pictures: Pictures) -> Referred:
    picture = pictures.find(cells["image"], name)
    box, expressions = _referred(cells)
    size = pictures.size(picture, cells)
    width, height = size
    x1, y1, x2, y2 = box
    box = (max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height)))
    if not is_proper(box, *size):
        raise DataError(
            f"its box {[x1, y1, x2, y2]} is outside the picture of {width} x {height} pixels"
        )
    return Referred(picture=picture, size=size, box=box, expressions=expressions)


def _referred(cells: Cells) -> tuple[Box, tuple[tuple[str, str], ...]]:
    """The box in pixels, (x1, y1, x2, y2), and the expressions, in the form of the row's columns."""
    if "conversations" in cells:  # VLM-R1's jsonl
        asked, told = (turn["value"] for turn in cells["conversations"][:2])
        problem = str(asked).replace("<image>", "").strip()
        return _four(told), ((_expression(problem), problem),)
    if "solution" in cells and "problem" in cells:  # VLM-R1's json
        problem = str(cells["problem"])
        expression = str(cells.get("normal_caption") or _expression(problem))
        return _four(cells["solution"]), ((expression, problem),)
    if "sent" in cells:  # Qwen-VL's jsonl
        return _four(cells["bbox"]), ((str(cells["sent"]), ""),)
    x, y, width, height = _four(cells["bbox"])  # lmms-lab
    answers = cells["answer"]
    texts = [answers] if isinstance(answers, str) else list(answers)
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise DataError("no expression")
    return (x, y, x + width, y + height), tuple((t, "") for t in texts)


def _expression(problem: str) -> str:
    """The expression of a question in VLM-R1's words; another question as it is."""
    if not problem.startswith(PREFIX):
        return problem
    return problem.removeprefix(PREFIX).strip().removesuffix(".")


def _four(value: Any) -> Box:
    """Four numbers, as a list or as its text."""
    numbers = json.loads(value) if isinstance(value, str) else value
    if not isinstance(numbers, Sequence) and hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    good = isinstance(numbers, Sequence) and len(numbers) == 4
    if not good or not all(type(v) in (int, float) for v in numbers):
        raise DataError(f"{str(value)[:60]!r} is not a box of four numbers")
    x1, y1, x2, y2 = map(float, numbers)
    return x1, y1, x2, y2
