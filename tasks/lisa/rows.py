"""ReasonSeg's pictures with their polygons and instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from vlrft.data import Defect, Layout, Layouts, Picture, Row, Source, read_file, read_row
from vlrft.schema import DataError
from vlrft.vision.box_options import BoxOptions
from vlrft.vision.images import open_size
from vlrft.vision.masks import bounding_box

from .masked import holds, read_masked
from .polygons import paint

PICTURES = (".jpg", ".jpeg", ".png")
RECTANGLE = "rectangle"
FARTHEST = 1e6  # pixels; also refuses what is not finite


@dataclass(frozen=True, kw_only=True)
class Options(BoxOptions):
    """Where the data are, which box is the gold answer, and how boxes are written."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """ReasonSeg's folder or zip (`train/`, `val/`, `test/`: pictures and json); or a copy with masks (hub: Ricky06662/ReasonSeg_val
    and ReasonSeg_test)."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""
    box: Literal["target", "first_shape"] = "target"
    """target: around the whole target mask. first_shape: around the first polygon only, whatever its label, in truncated
    thousandths, as released."""
    instructions: Literal["first", "all"] = "first"
    """Of the test and val splits; training takes all instructions of a picture. A prepared folder has those that it was
    prepared with."""

    masks: str = RECTANGLE
    """How gIoU and cIoU make a mask of a box: `rectangle` fills it; the hub id or the folder of a SAM model, such as
    facebook/sam-vit-huge, segments the object in the box, as for the published results."""


def _annotations(source: Source, split: str) -> list[str]:
    names = source.names()
    return [n for n in names if n.endswith(".json") and split in PurePosixPath(n).parts[:-1]]


def read_polygons(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """One row for each instruction."""
    names = source.names()
    pictures = {n.rpartition(".")[0]: n for n in names if n.lower().endswith(PICTURES)}
    annotations = _annotations(source, split)
    for name in annotations:
        where = f"{split}/{PurePosixPath(name).stem}"
        item = read_row(where, partial(_read_picture, source, pictures, name))
        if isinstance(item, Defect):
            yield item
            continue
        picture, shapes, texts, info = item
        if split != "train" and options.instructions == "first":
            texts = texts[:1]
        for k, text in enumerate(texts):
            yield Row(
                id=f"{where}/{k}",
                question=text,
                answer=info["target"],
                pictures=(picture,),
                tags={"answer": "box"},
                info={"split": split, "shapes": shapes, **info},
            )


def _read_picture(
    source: Source, pictures: Mapping[str, str], name: str
) -> tuple[Picture, list[dict[str, Any]], list[str], dict[str, Any]]:
    picture = _picture(source, pictures, name)
    return picture, *_annotation(source, name, picture)


def _picture(source: Source, pictures: Mapping[str, str], name: str) -> Picture:
    place = pictures.get(name.removesuffix(".json"))
    if place is None:
        raise DataError(f"no picture for {name}")
    return Picture(name=place, read=lambda: read_file(source, place))


def _annotation(
    source: Source, name: str, picture: Picture
) -> tuple[list[dict[str, Any]], list[str], dict[str, Any]]:
    """The polygons, the instructions, and the picture's size with the boxes in pixels."""
    content = read_file(source, name)
    try:
        cells: Any = json.loads(_text(content))
        texts = cells["text"]
        texts = [texts] if isinstance(texts, str) else list(texts)
        shapes: list[dict[str, Any]] = [
            {
                "label": str(s["label"]),
                "points": [[float(x), float(y)] for x, y in s["points"]],
            }
            for s in cells["shapes"]
        ]
        within = all(abs(v) <= FARTHEST for s in shapes for point in s["points"] for v in point)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise DataError(f"{name}: no ReasonSeg annotation ({type(e).__name__}: {e})") from e
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise DataError(f"{name}: no instruction")
    if not within:
        raise DataError(f"{name}: a polygon's point is no place of a picture")
    size = open_size(picture.read(), picture.name)
    target = bounding_box(paint(shapes, size))
    if target is None:
        raise DataError(f"{name}: no target: its polygons are empty, flags or ignored")
    if not shapes[0]["points"]:
        raise DataError(f"{name}: its first polygon has no points")
    xs, ys = zip(*shapes[0]["points"], strict=True)
    first = [min(xs), min(ys), max(xs), max(ys)]
    boxes = {"size": list(size), "target": list(target), "first_shape": first}
    return shapes, texts, boxes


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:  # some of ReasonSeg's files are in it
        return content.decode("cp1252", errors="replace")


read = Layouts(
    (
        Layout(
            name="a copy with masks (hub: Ricky06662/ReasonSeg_val and _test)",
            found=holds,
            read=read_masked,
        ),
        Layout(
            name="a folder SPLIT/ with json files of polygons next to pictures (ReasonSeg's zips)",
            found=lambda source, split, options: bool(_annotations(source, split)),
            read=read_polygons,
        ),
    )
)
