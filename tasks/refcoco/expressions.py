"""One row of RefCOCO in any of the published forms: its picture, its box and its expressions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from vlrft.data import Cells, Picture, Source, parse_picture, read_file
from vlrft.schema import DataError
from vlrft.vision.boxes import Box, is_proper
from vlrft.vision.images import open_size

PREFIX = "Please provide the bounding box coordinate of the region this sentence describes:"


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


def read_expressions(cells: Cells, name: str, pictures: Pictures) -> Referred:
    """The object of a row. Raises DataError for a row that cannot be used."""
    picture = pictures.find(cells["image"], name)
    box, expressions = _read_reference(cells)
    size = pictures.size(picture, cells)
    width, height = size
    x1, y1, x2, y2 = box
    box = (max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height)))
    if not is_proper(box, *size):
        raise DataError(
            f"its box {[x1, y1, x2, y2]} is outside the picture of {width} x {height} pixels"
        )
    return Referred(picture=picture, size=size, box=box, expressions=expressions)


def _read_reference(cells: Cells) -> tuple[Box, tuple[tuple[str, str], ...]]:
    """The box in pixels, (x1, y1, x2, y2), and the expressions, in the form of the row's columns."""
    if "conversations" in cells:  # VLM-R1's jsonl
        question, reply = (turn["value"] for turn in cells["conversations"][:2])
        problem = str(question).replace("<image>", "").strip()
        return _four(reply), ((_expression(problem), problem),)
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
