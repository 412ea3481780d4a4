"""COCO annotation files: images, annotations and categories in one JSON object, as COCO, LVIS and Roboflow write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from vlrft.data.row import Defect
from vlrft.data.source import Source
from vlrft.data.tables import MAX_TABLE, parse_json, read_limited
from vlrft.schema import DataError
from vlrft.vision.boxes import Box

_INSTANCES = "instances"
_HEAD = 1 << 16  # bytes of a file in which one of its lists begins
_LISTS = re.compile(rb'"(?:images|annotations|categories)"\s*:\s*\[')


@dataclass(frozen=True, kw_only=True)
class CocoImage:
    """An entry of `images`."""

    id: int | str
    file: str
    """`file_name`; for LVIS, which has none, the end of `coco_url`, such as val2017/000000037777.jpg."""
    size: tuple[int, int] | None
    """Width and height, where the file states them."""


@dataclass(frozen=True, kw_only=True)
class CocoObject:
    """An entry of `annotations` with a box (x1, y1, x2, y2), in pixels of its picture."""

    category: str
    box: Box
    area: float
    crowd: bool


@dataclass(frozen=True, kw_only=True)
class CocoFile:
    """The content of an annotation file."""

    images: tuple[CocoImage, ...]
    categories: tuple[str, ...]
    """In the order of their ids."""
    objects: Mapping[int | str, Sequence[CocoObject]]
    """By the id of the image; an image without objects has no entry."""
    defects: tuple[Defect, ...]
    """Annotations that cannot be used: of an image or a category that is not there, or without a box."""


def is_coco_file(source: Source, name: str) -> bool:
    """Whether a file looks like one, from its name and its first bytes."""
    if PurePosixPath(name).suffix.lower() != ".json":
        return False
    try:
        with source.open(name) as file:
            head = file.read(_HEAD)
    except (DataError, OSError):
        return False
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and bool(_LISTS.search(head))


def coco_files(source: Source) -> list[str]:
    """The files that look like one. Of those in one folder, those with boxes: COCO's `instances_…` is among captions and
    keypoints, whose files have the same lists."""
    files = [name for name in source.names() if is_coco_file(source, name)]
    with_boxes = {PurePosixPath(name).parent for name in files if _INSTANCES in name}
    return [n for n in files if _INSTANCES in n or PurePosixPath(n).parent not in with_boxes]


def read_coco_file(source: Source, name: str) -> CocoFile:
    """The file's content. Raises DataError, with the file's name, for one that has not the three lists, or whose images or
    categories are not readable."""
    where = f"{source.label}: {name}"
    with source.open(name) as file:
        content = read_limited(file, where, MAX_TABLE)
    try:
        tree = parse_json(content.decode("utf-8-sig"), where)
    except UnicodeDecodeError as e:
        raise DataError(f"{where}: not UTF-8 at byte {e.start}") from e
    lists = ("images", "annotations", "categories")
    if missing := [key for key in lists if not isinstance(tree.get(key), list)]:
        raise DataError(f"{where}: no COCO annotation file, as it has no list {missing[0]!r}")
    try:
        images = tuple(map(_image, tree["images"]))
        names = {c["id"]: str(c["name"]) for c in tree["categories"]}
    except (KeyError, TypeError) as e:
        raise DataError(f"{where}: an image or a category is not readable ({e!r})") from e
    ids = {image.id for image in images}
    objects: dict[int | str, list[CocoObject]] = {}
    defects: list[Defect] = []
    for number, cells in enumerate(tree["annotations"]):
        label = f"annotation {cells.get('id', number) if isinstance(cells, Mapping) else number}"
        try:
            if cells["image_id"] not in ids:
                raise DataError(f"no image {cells['image_id']!r}")
            if cells["category_id"] not in names:
                raise DataError(f"no category {cells['category_id']!r}")
            one = _object(cells, names[cells["category_id"]])
        except (KeyError, TypeError, ValueError) as e:
            why = f"no {e.args[0]}" if isinstance(e, KeyError) else str(e)
            defects.append(Defect(id=label, reason="unusable annotation", detail=why))
            continue
        objects.setdefault(cells["image_id"], []).append(one)
    return CocoFile(
        images=images,
        categories=tuple(names[k] for k in sorted(names, key=lambda k: (str(type(k)), k))),
        objects=objects,
        defects=tuple(defects),
    )


def clip(box: Box, size: tuple[int, int]) -> Box | None:
    """The part of a box that is inside its picture; None where it has no area."""
    x1, y1 = max(box[0], 0.0), max(box[1], 0.0)
    x2, y2 = min(box[2], float(size[0])), min(box[3], float(size[1]))
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def split_words(name: str) -> Iterator[str]:
    """The words of a file's path without digits: `annotations/instances_val2017.json` has `val`."""
    yield from (w for w in re.split(r"[^a-z]+", name.lower()) if w)


def _image(cells: Any) -> CocoImage:
    width, height = cells.get("width"), cells.get("height")
    stated = type(width) is int and type(height) is int and min(width, height) > 0
    file = cells.get("file_name")
    if file is None:
        file = "/".join(str(cells["coco_url"]).split("/")[-2:])
    return CocoImage(id=cells["id"], file=str(file), size=(width, height) if stated else None)


def _object(cells: Any, category: str) -> CocoObject:
    numbers = cells["bbox"]
    good = isinstance(numbers, list) and len(numbers) == 4
    if not good or not all(type(v) in (int, float) and math.isfinite(v) for v in numbers):
        raise DataError(f"its bbox {str(numbers)[:60]} is not x, y, width, height")
    x, y, width, height = map(float, numbers)
    if width <= 0 or height <= 0:
        raise DataError(f"its bbox {numbers} has no area")
    area = cells.get("area")
    exact = type(area) in (int, float) and math.isfinite(area) and area > 0
    return CocoObject(
        category=category,
        box=(x, y, x + width, y + height),
        area=float(area) if exact else width * height,
        crowd=bool(cells.get("iscrowd", 0)),
    )
