"""Few-shot classification: `hub/`, a ViRFT parquet; `raw/`, a label file and a folder a class; `broken/`. All of pets37."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.makers._pictures import encoded, photograph, scanned_digit
from tests.data.makers._tables import image_cell, write_bytes, write_jsonl, write_parquet

NAMES = ("abyssinian", "american_bulldog", "persian")
LABELS = (0, 1, 23)  # their places in the list of classes
CLASSES = [NAMES[LABELS.index(k)] if k in LABELS else f"breed number {k}" for k in range(37)]
PROBLEM = "This is an image containing a pet. Please identify the species of the pet."


def make(folder: Path) -> None:
    pictures = [encoded(scanned_digit(k)) for k in range(15)]
    train: list[dict[str, Any]] = [
        {
            "image": image_cell(pictures[3 * k + c], f"{name}_{k}.jpg"),
            "problem": PROBLEM,
            "solution": f"<answer>{name}</answer>",
        }
        for k in range(4)
        for c, name in enumerate(NAMES)
    ]
    write_parquet(folder / "hub/data/train-00000-of-00001.parquet", train)
    for c, name in enumerate(NAMES):
        for k in range(5):
            write_bytes(folder / f"raw/train/{name.title()}/{name}_{k}.png", pictures[3 * k + c])
    rows = []
    for k, label in enumerate((*LABELS, 0)):
        crop = photograph("flower.jpg").crop((80 * k, 40, 80 * k + 120, 200))
        write_bytes(folder / f"raw/images/Pet_{k}.jpg", encoded(crop, "JPEG"))
        rows.append({"image": f"Pet_{k}.jpg", "label": label})
    write_jsonl(folder / "raw/pets37_test.jsonl", rows)
    listed = "\n".join(CLASSES).encode() + b"\n"
    write_bytes(folder / "raw/pets37_classes.txt", listed)
    write_bytes(folder / "broken/classes.txt", listed)
    broken = [rows[0], {"image": "gone.jpg", "label": 1}, {"image": "Pet_0.jpg", "label": 37}]
    write_bytes(folder / "broken/Pet_0.jpg", pictures[0])
    write_jsonl(folder / "broken/test.jsonl", broken)
