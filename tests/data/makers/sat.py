"""SAT's parquet and CV-Bench's two: `raw/`, and `broken/` with rows that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.data.makers._pictures import encoded, photograph, things
from tests.data.makers._tables import image_cell, write_parquet

# task, source, question, choices, answer
BENCH: tuple[tuple[str, str, str, list[str], str], ...] = (
    ("Count", "ADE20K", "How many balls are in the image?", ["3", "1", "2", "0"], "(A)"),
    ("Relation", "COCO", "Where is the sky with respect to the roof?", ["above", "below"], "(A)"),
    ("Depth", "Omni3D", "Which object is closer to the camera?", ["chair", "bookcase"], "(B)"),
    ("Distance", "Omni3D", "Which object is closer to the lamp?", ["lamp", "sofa"], "(A)"),
)


def make(folder: Path) -> None:
    pictures = [encoded(things(k + 2, k), "JPEG") for k in range(5)]
    train: list[dict[str, Any]] = [
        sat(pictures[0], "Is the ball left or right?", ["left", "right"]),
        sat(pictures[1], "Which way, in words?", ["left, then up", "right", "not at all"]),
        sat(pictures[2], "What changed?", ["the camera", "nothing"])
        | {"image_bytes": pictures[2:4]},
        sat(pictures[4], "How many boxes are there?", ["3", "4"]),
    ]
    write_parquet(folder / "raw/SAT_train.parquet", train)
    rows = [bench(k) for k in range(len(BENCH))]
    write_parquet(folder / "raw/test_2d.parquet", rows[:2])
    write_parquet(folder / "raw/test_3d.parquet", rows[2:])
    broken = [train[0], train[1] | {"correct_answer": "up"}, train[3] | {"image_bytes": [b"no"]}]
    write_parquet(folder / "broken/train.parquet", broken)
    wrong = [rows[0], rows[1] | {"answer": "(C)"}]
    write_parquet(folder / "broken/test.parquet", wrong)


def sat(image: bytes, question: str, answers: list[str]) -> dict[str, Any]:
    """The first option is the right one."""
    return {
        "image_bytes": [image],
        "question": question,
        "answers": answers,
        "correct_answer": answers[0],
    }


def bench(k: int) -> dict[str, Any]:
    kind, source, question, choices, answer = BENCH[k]
    listed = "\n".join(f"({letter}) {text}" for letter, text in zip("ABCD", choices, strict=False))
    crop = photograph().crop((100 * k, 0, 100 * k + 160, 120))
    return {
        "idx": k,
        "type": "3D" if source == "Omni3D" else "2D",
        "task": kind,
        "image": image_cell(encoded(crop), f"{k}.png"),
        "question": question,
        "choices": choices,
        "answer": answer,
        "prompt": f"{question} Select from the following choices.\n{listed}",
        "filename": f"img/{k}.png",
        "source": source,
        "source_dataset": f"{source} Dataset",
    }
