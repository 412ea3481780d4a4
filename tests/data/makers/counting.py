"""Counting: `hub/`, CLEVR's training parquet; `raw/`, R1-V's SuperCLEVR prompts beside their images; `broken/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.makers._pictures import encoded, things
from tests.data.makers._tables import image_cell, write_bytes, write_jsonl, write_parquet

QUESTION = "How many items are there in the image?"
COUNTS = (3, 9, 5, 0, 7)


def make(folder: Path) -> None:
    train: list[dict[str, Any]] = [
        {
            "image": image_cell(encoded(things(count, seed)), f"CLEVR_trainA_{seed:06}.png"),
            "problem": QUESTION,
            "solution": f"<answer> {count} </answer>",
        }
        for seed, count in enumerate(COUNTS)
    ]
    write_parquet(folder / "hub/data/train-00000-of-00001.parquet", train)
    broken = [
        train[0],
        train[1] | {"solution": "<answer> many </answer>"},
        train[2] | {"image": None},
    ]
    write_parquet(folder / "broken/train.parquet", broken)
    rows = []
    for k, count in enumerate(COUNTS):
        place = f"superCLEVR_new_{k:06}.png"
        write_bytes(folder / "raw/images" / place, encoded(things(count, 100 + k)))
        question = "How many different items are there in the image?"
        rows.append(
            {"image_path": f"./images/{place}", "question": question, "ground_truth": count}
        )
    write_jsonl(folder / "raw/prompts/superclevr_test200_counting_problems.jsonl", rows)
