"""ReasonSeg's pairs of a picture and a JSON file with polygons and instructions, as rows."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from PIL import Image

from vlrft.boxes import Box
from vlrft.data import Defect, Picture, Row, Source, parse_json
from vlrft.data import read as read_file
from vlrft.masks import IGNORED, Points, box_around, paint
from vlrft.schema import DataError

PICTURES = (".jpg", ".jpeg", ".png")


def read(source: Source, split: str, options: Any) -> Iterator[Row | Defect]:
    """A row for each instruction of the training pictures; of the others for the first, or for
    each (`options.instructions`)."""
    names = set(source.names())
    for name in sorted(n for n in names if n.endswith(".json") and _of(n, split)):
        stem = name.removesuffix(".json")
        number = f"{split}/{PurePosixPath(stem).name}"
        picture = next((stem + s for s in PICTURES if stem + s in names), None)
        try:
            if picture is None:
                raise DataError("there is no picture of that name")
            yield from _rows(source, split, number, name, picture, options.instructions)
        except (DataError, KeyError, TypeError, ValueError, OSError) as e:
            yield Defect(id=number, reason="unusable annotation", detail=f"{type(e).__name__}: {e}")


def _of(name: str, split: str) -> bool:
    return PurePosixPath(name).parent.name == split


def _rows(
    source: Source, split: str, number: str, name: str, picture: str, instructions: str
) -> Iterator[Row]:
    cells = parse_json(read_file(source, name).decode("utf-8"), name)
    texts = [t.strip() for t in cells["text"] if t.strip()]
    if not texts:
        raise DataError("there is no instruction")
    with Image.open(io.BytesIO(read_file(source, picture))) as image:
        size = image.size
    shapes = shapes_of(cells["shapes"])
    info = {
        "split": split,
        "size": list(size),
        "shapes": [[value, points] for value, points in shapes],
        "first": list(_first(cells["shapes"])),
        "target": list(_target(size, shapes)),
    }
    kind = {"kind": "sentence" if cells.get("is_sentence") else "phrase"}
    taken = texts if split == "train" or instructions == "all" else texts[:1]
    for place, text in enumerate(taken):
        label = number if len(texts) == 1 else f"{number}/{place}"
        yield Row(
            id=label,
            question=text,
            answer=None,  # which box it is, is for the options to say
            pictures=(Picture(name=picture, read=lambda: read_file(source, picture)),),
            tags=kind,
            info=info,
        )


def shapes_of(shapes: Sequence[Mapping[str, Any]]) -> list[tuple[int, Points]]:
    """Value and points of each polygon; those labelled `flag` are none, `ignore` is neither for nor
    against."""
    found: list[tuple[int, Points]] = []
    for shape in shapes:
        label = str(shape["label"]).lower()
        if label != "flag":
            points = [[float(x), float(y)] for x, y in shape["points"]]
            found.append((IGNORED if "ignore" in label else 1, points))
    return found


def _first(shapes: Sequence[Mapping[str, Any]]) -> Box:
    """Pixels: around the points of the first shape, whatever its label, as released."""
    points = shapes[0]["points"] if shapes else []
    if len(points) < 2:
        raise DataError("the first shape has no two points")
    across, down = zip(*points, strict=True)
    return (float(min(across)), float(min(down)), float(max(across)), float(max(down)))


def _target(size: tuple[int, int], shapes: list[tuple[int, Points]]) -> Box:
    """Pixels: around the whole target."""
    if any(len(points) < 2 for _, points in shapes):
        raise DataError("a shape has fewer than two points")
    found = box_around(paint(size, shapes))
    if found is None:
        raise DataError("no target is left beside flags and ignored parts")
    return found
