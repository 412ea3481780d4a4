"""ReasonSeg: pictures with a JSON file of polygons and instructions each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.makers._pictures import encoded, photograph
from tests.data.makers._tables import write_bytes, write_json

SQUARE = [[100, 50], [300, 50], [300, 250], [100, 250]]
BESIDE = [[400, 50], [500, 50], [500, 150], [400, 150]]
WITHIN = [[120, 70], [160, 70], [160, 110], [120, 110]]


def shape(label: str, points: list[list[int]]) -> dict[str, Any]:
    return {"label": label, "labels": [label], "shape_type": "polygon", "points": points}


def annotation(*shapes: dict[str, Any], text: tuple[str, ...] = ("the roof",)) -> dict[str, Any]:
    return {"text": list(text), "is_sentence": len(text[0]) > 20, "shapes": list(shapes)}


SENTENCE = "where would one look for the oldest part of the building"
TRAIN = {
    "100_1": annotation(
        shape("target", SQUARE), text=(SENTENCE, "the roof", "what keeps rain out")
    ),
    "100_2": annotation(shape("target", SQUARE), shape("target", BESIDE)),
    "100_3": annotation(shape("ignore", WITHIN), shape("target", SQUARE), shape("flag", BESIDE)),
    "100_4": annotation(shape("ignore", SQUARE)),  # no target: a defect
    "100_5": annotation(shape("target", SQUARE), text=(" ",)),  # no instruction: a defect
}
TEST = {
    "7_1": annotation(shape("target", SQUARE), text=(SENTENCE, "the roof")),
    "7_2": annotation(shape("target", BESIDE)),
    "7_3": annotation(shape("target", SQUARE), shape("ignore", WITHIN)),
    "7_4": annotation(shape("target", WITHIN), shape("target", BESIDE)),
}


def make(folder: Path) -> None:
    picture = encoded(photograph().resize((640, 427)), "JPEG")
    for split, found in (("train", TRAIN), ("val", TEST), ("test", TEST)):
        for name, cells in found.items():
            write_bytes(folder / "raw" / split / f"{name}.jpg", picture)
            write_json(folder / "raw" / split / f"{name}.json", cells)
