"""Geometry3K: `hub/`, the parquet of EasyR1; `raw/`, InterGPS' folders, one of which is broken."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tests.data.makers._pictures import circle, encoded, triangle
from tests.data.makers._tables import image_cell, write_bytes, write_json, write_parquet

PROBLEMS = (
    ("Find $x$.", ("12", "5.5", "6 \\sqrt { 3 }", "\\frac { 15 } { 2 }"), "C"),
    ("In $\\odot O$, find $m \\widehat { P Q }$.", ("45", "90", "120", "180"), "B"),
    (
        "Find the area of $\\triangle A B C$ to the nearest tenth.",
        ("31.2", "62.4", "18", "24"),
        "A",
    ),
)
FOLDERS = {"train": 3, "val": 2, "test": 3}


def make(folder: Path) -> None:
    for name, place in (("train", "train"), ("validation", "val"), ("test", "test")):
        rows = [
            {
                "images": [image_cell(encoded(_picture(k)))],
                "problem": f"<image>{text}",
                "answer": choices["ABCD".index(letter)],
            }
            for k, (text, choices, letter) in enumerate(PROBLEMS[: FOLDERS[place]])
        ]
        write_parquet(folder / f"hub/data/{name}-00000-of-00001.parquet", rows)
        for k in range(FOLDERS[place]):
            _folder(folder / f"raw/{place}/{9 + k}", k, place)
    write_json(folder / "raw/train/12/data.json", _cells(0, "train") | {"answer": "E"})


def _picture(k: int) -> Image.Image:
    return circle((280, 280)) if k == 1 else triangle((420, 300))


def _folder(folder: Path, k: int, split: str) -> None:
    write_json(folder / "data.json", _cells(k, split))
    write_json(
        folder / "logic_form.json", {"text_logic_form": ["Find(x)"], "diagram_logic_form": []}
    )
    for name in ("img_diagram", "img_diagram_point", "img_problem"):
        write_bytes(folder / f"{name}.png", encoded(_picture(k)))


def _cells(k: int, split: str) -> dict[str, object]:
    text, choices, letter = PROBLEMS[k]
    return {
        "problem_text": text,
        "choices": list(choices),
        "precise_value": [12.0, 5.5, 10.3923, 7.5],
        "answer": letter,
        "problem_type_graph": ["Triangle"],
        "problem_type_goal": ["Length"],
        "data_type": split,
    }
