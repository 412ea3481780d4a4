"""Boxes and points as tables write them, and their conversion to thousandths of the picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from vlrft.grading import read_box as read_written_box
from vlrft.grading import read_json
from vlrft.vision.boxes import THOUSAND, is_proper, rescale, resized_size
from vlrft.vision.images import open_size

from .answers._cells import read_numbers, show, strip_tags
from .entry import BoxCorners, BoxForm, BoxUnit, Entry

if TYPE_CHECKING:
    from .kind import Facts
    from .options import Options

KEYS: Sequence[tuple[tuple[str, str, str, str], BoxCorners]] = (
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x_min", "y_min", "x_max", "y_max"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("x", "y", "w", "h"), "xywh"),
    (("x", "y", "width", "height"), "xywh"),
    (("left", "top", "width", "height"), "xywh"),
)
NESTED = ("bbox", "bbox_2d", "box", "Position")
SLACK = 5.0  # thousandths that a box may leave its picture: annotations are not rounded to pixels


@dataclass(frozen=True, kw_only=True)
class BoxCell:
    """The four numbers of a box, and how they are meant where its keys say so."""

    numbers: tuple[float, float, float, float]
    corners: BoxCorners | None = None


def parse_box(cell: Any) -> BoxCell:
    """A box. Of a text in JSON no more is known than of its value. Raises ValueError."""
    value = strip_tags(cell)
    if isinstance(value, str):
        tree = read_json(value)
        written = read_written_box(value) if tree is None else None
        if written is not None:
            return BoxCell(numbers=written, corners="xyxy")
        value = value if tree is None else tree
    if isinstance(value, Mapping):
        for key in NESTED:
            if key in value:
                return parse_box(value[key])
        for keys, corners in KEYS:
            if all(key in value for key in keys):
                numbers = read_numbers([value[key] for key in keys])
                if numbers is not None:
                    return BoxCell(numbers=_four(numbers, cell), corners=corners)
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], int | float):
        return parse_box(value[0])
    return BoxCell(numbers=_four(read_numbers(value), cell))


def parse_boxes(cell: Any) -> list[BoxCell]:
    """A list of at least one box. Raises ValueError."""
    value = strip_tags(cell)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = value.splitlines()
    if not isinstance(value, list | tuple) or not value or read_numbers(list(value)) is not None:
        raise ValueError(
            f"the gold answer {show(cell)} is no list of boxes; expected a list of lists of four numbers"
        )
    return [parse_box(item) for item in value]


def parse_point(cell: Any) -> BoxCell | tuple[float, float]:
    """A point, or a box to point into. Raises ValueError."""
    value = strip_tags(cell)
    if isinstance(value, Mapping) and {"x", "y"} == value.keys():
        value = [value["x"], value["y"]]
    numbers = read_numbers(value)
    if numbers is not None and len(numbers) == 2:
        return numbers[0], numbers[1]
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], int | float):
        return parse_point(value[0])
    return parse_box(value)


def _four(numbers: Sequence[float] | None, cell: Any) -> tuple[float, float, float, float]:
    if numbers is None or len(numbers) != 4:
        raise ValueError(f"the gold answer {show(cell)} is no box; expected four numbers")
    return numbers[0], numbers[1], numbers[2], numbers[3]


def to_thousandths(
    entry: Entry, facts: Facts, cell: BoxCell, *, area: bool = True
) -> tuple[list[int], dict[str, Any]]:
    """The box in whole thousandths, and the size and frame of its picture where the prompt or the reward needs them. Raises
    ValueError for a box that leaves the picture, or, with `area`, has none. DataError for a picture that cannot be read."""
    form, options = facts.boxes, facts.options
    assert form is not None
    info: dict[str, Any] = {}
    if form.unit in ("pixels", "resized") or options.boxes == "resized":
        info["size"] = list(picture_size(entry))
    if options.boxes == "resized":
        info["frame"] = list(
            resized_size(info["size"][0], info["size"][1], options.min_pixels, options.max_pixels)
        )
    corners = cell.corners or form.corners
    x1, y1, x2, y2 = cell.numbers
    if corners == "xywh":
        x2, y2 = x1 + x2, y1 + y2
    frame = _frame(form.unit, info.get("size", (1, 1)), options)
    exact = rescale((x1, y1, x2, y2), frame, (THOUSAND, THOUSAND))
    low, high = -SLACK, THOUSAND + SLACK
    box = [round(min(max(v, 0.0), THOUSAND)) for v in exact]
    written = f"{[float(f'{v:g}') for v in cell.numbers]} in {form.unit} ({corners})"
    if not all(low <= v <= high for v in exact):
        size = f" of {info['size'][0]} × {info['size'][1]} pixels" if "size" in info else ""
        raise ValueError(f"the gold box {written} leaves the picture{size}")
    if area and not is_proper((box[0], box[1], box[2], box[3])):
        raise ValueError(f"the gold box {written} is inverted or has no area")
    return box, info


def _frame(unit: BoxUnit, size: Sequence[int], options: Options) -> tuple[float, float]:
    """Width and height of the picture in a unit."""
    width, height = size
    frames: dict[str, Any] = {
        "pixels": lambda: (width, height),
        "resized": lambda: resized_size(width, height, options.min_pixels, options.max_pixels),
        "thousandths": lambda: (THOUSAND, THOUSAND),
        "normalised": lambda: (1.0, 1.0),
    }
    across, down = frames[unit]()
    return float(across), float(down)


def picture_size(entry: Entry) -> tuple[int, int]:
    """Width and height of the entry's picture. Raises ValueError where it has not exactly one."""
    if len(entry.pictures) != 1:
        raise ValueError(f"{len(entry.pictures)} pictures; a box needs exactly one")
    if entry.size is not None:
        return entry.size
    picture = entry.pictures[0]
    return open_size(picture.read(), picture.name)


def stated_corners(entries: Sequence[Entry]) -> BoxCorners | None:
    """How the boxes are written where the keys of all of them say so; None where they do not, or differ."""
    stated: set[BoxCorners | None] = {cell.corners for entry in entries for cell in _cells(entry)}
    return stated.pop() if len(stated) == 1 else None


def conventions(entries: Sequence[Entry], options: Options) -> list[str]:
    """The conventions that the options leave open, in which all boxes of these entries lie within their pictures, such as
    `pixels xyxy`."""
    from .kind import Facts

    fitting: list[str] = []
    stated = options.box_corners or stated_corners(entries)
    units = get_args(BoxUnit) if options.box_unit is None else (options.box_unit,)
    for unit, corners in product(units, get_args(BoxCorners) if stated is None else (stated,)):
        facts = Facts(options=options, boxes=BoxForm(unit=unit, corners=corners))
        if entries and all(_fits(entry, facts) for entry in entries[:20]):
            fitting.append(f"{unit} {corners}")
    return fitting


def _cells(entry: Entry) -> list[BoxCell]:
    """The boxes of an entry, one or several; none where they cannot be read."""
    for parse in (parse_boxes, lambda cell: [parse_box(cell)]):
        try:
            return parse(entry.answer)
        except ValueError:
            continue
    return []


def _fits(entry: Entry, facts: Facts) -> bool:
    cells = _cells(entry)
    try:
        for cell in cells:
            to_thousandths(entry, facts, cell)
    except ValueError:  # a DataError too
        return False
    return bool(cells)
