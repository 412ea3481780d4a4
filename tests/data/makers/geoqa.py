"""GeoQA: `hub/`, the 8K training set's parquet; `raw/`, R1-V's test prompts beside Geo170K's images; `images.zip`, the same
images packed; `broken/`, rows that cannot be used."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from tests.data.makers._pictures import circle, encoded, photograph, see_through, triangle, turned
from tests.data.makers._tables import image_cell, write_bytes, write_jsonl, write_parquet

TRAIN = (
    (
        "As shown in the figure, DE parallel BC, angle A = 80.0, angle B = 60.0, then angle CED is ()",
        "140",
    ),
    ("As shown in the figure, AB is a diameter of circle O, then angle PQO is ()", "45°"),
    ("As shown in the figure, the length of the shadow of the pole is ()", "8√{3}"),
    ("As shown in the figure, the area of the sector is ()", "65π"),
    ("As shown in the figure, the height of the tower is ()", "\\frac{3}{2}"),
)
TEST = (
    (
        "As shown in the figure, in triangle ABC, it is known that angle A = 80.0, then angle CED is ()",
        "140°",
    ),
    ("As shown in the figure, the chord PQ measures ()", "4√{2}cm"),
    ("As shown in the figure, the lateral area of the cone is ()", "15π"),
)
PICTURES = (encoded(triangle()), see_through(circle()), turned(triangle()))


def make(folder: Path) -> None:
    pictures = [
        *PICTURES,
        encoded(circle(), "JPEG"),
        encoded(photograph().resize((1280, 854)), "JPEG"),
    ]
    train: list[dict[str, Any]] = [
        {"image": image_cell(p), "problem": question, "solution": f"<answer> {gold} </answer>"}
        for p, (question, gold) in zip(pictures, TRAIN, strict=True)
    ]
    write_parquet(folder / "hub/data/train-00000-of-00001.parquet", train)
    _test(folder / "raw")
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for path in sorted((folder / "raw").rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder / "raw"))
    _broken(folder / "broken", train[0])


def _test(folder: Path) -> None:
    """Geo170K has other pictures of the same names beside those of the test."""
    rows = []
    for k, (question, gold) in enumerate(TEST):
        write_bytes(folder / f"Geo170K/images/test/{k}.png", PICTURES[k])
        write_bytes(
            folder / f"Geo170K/images/geoqa_plus/{k}.png", encoded(photograph("flower.jpg"))
        )
        place = f"./Geo170K/images/test/{k}.png"
        rows.append({"image_path": place, "question": question, "ground_truth": gold})
    write_jsonl(folder / "prompts/geoqa_test_prompts.jsonl", rows)


def _broken(folder: Path, good: dict[str, Any]) -> None:
    rows = [
        good,
        good | {"image": image_cell(b"no picture")},
        good | {"problem": "  "},
        good | {"solution": "<answer>  </answer>"},
        good | {"solution": "<answer> √{ </answer>"},
        good | {"image": None},
    ]
    write_parquet(folder / "train.parquet", rows)
