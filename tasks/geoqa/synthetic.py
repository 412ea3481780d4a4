"""Synthetic diagrams: figures to scale with a computed answer. Training and test ask the same kinds of questions in other sentences.

The training rows are a table as R1-V's training set, the test rows its `geoqa_test_prompts.jsonl` next to pictures as Geo170K's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, encode_picture, write_bytes, write_hub_table, write_lines

from .problems import (
    Problem,
    crossing,
    diagonal,
    disc,
    hypotenuse,
    inscribed,
    isosceles,
    midline,
    outer_angle,
    parallel,
    third_angle,
)

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS = {"image": "image", "problem": "string", "solution": "string"}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A diagram with its question and answer."""

    image: Image
    question: str
    answer: str


KINDS: Mapping[Callable[[random.Random], Problem], tuple[Sequence[str], Sequence[str]]] = {
    third_angle: (
        (
            "in triangle ABC, angle A = {a}.0, angle B = {b}.0",
            "it is known that two angles of triangle ABC are angle A = {a}.0 and angle B = {b}.0",
        ),
        ("then the size of angle C is", "so how large is angle C?"),
    ),
    outer_angle: (
        (
            "D is on the extension of BC, angle A = {a}.0, angle B = {b}.0",
            "angle ACD is an exterior angle of triangle ABC, if angle B = {b}.0 and angle A = {a}.0",
        ),
        ("then the degree of angle ACD is", "then angle ACD ="),
    ),
    parallel: (
        (
            "DE parallel  BC, angle A = {a}.0, angle B = {b}.0",
            "in triangle ABC, points D and E are on AB and AC, DE parallel  BC, if angle B = {b}.0, angle A = {a}.0",
        ),
        ("then the size of angle CED is", "then angle CED equals"),
    ),
    isosceles: (
        (
            "in triangle ABC, AB = AC, angle A = {a}.0",
            "the vertex angle A of the isosceles triangle ABC is {a}.0",
        ),
        ("then the size of angle B is", "then its base angle B is equal to"),
    ),
    crossing: (
        (
            "the straight lines AB and CD intersect at point O, angle AOC = {a}.0",
            "AB passes through a point O of the line CD, if angle AOC is equal to {a}.0",
        ),
        ("then angle BOC is", "the degree of angle BOC is"),
    ),
    inscribed: (
        (
            "points A, B and C are on circle O, angle AOB = {a}.0",
            "in circle O the central angle AOB is {a}.0",
        ),
        ("then the size of angle ACB is", "then the inscribed angle ACB of the same arc is"),
    ),
    hypotenuse: (
        (
            "in right triangle ABC, angle C = 90.0, AC = {a}, BC = {b}",
            "the legs of the right triangle ABC are AC = {a} and BC = {b}",
        ),
        ("then the length of AB is", "then its hypotenuse AB is"),
    ),
    diagonal: (
        ("the side BC of the square ABCD is {a}", "ABCD is a square with BC = {a}"),
        ("then the length of AC is", "then its diagonal AC is equal to"),
    ),
    midline: (
        (
            "D and E are the midpoints of AB and AC, BC = {a}cm",
            "DE is the median line of triangle ABC, if BC is {a}cm long",
        ),
        ("then the length of DE is", "then DE ="),
    ),
    disc: (
        ("the radius OA of circle O is {a}", "A is on circle O, if OA = {a}"),
        ("then the area of the circle is", "then the circle covers an area of"),
    ),
}
"""A kind of problem -> two ways to say what is given, and two ways to ask."""

PAIRS = {"train": ((0, 0), (1, 1)), "test": ((0, 1), (1, 0))}
"""Which ways a split combines: the test asks in no sentence of training, and in words of training alone."""


def _make(kind: Callable[[random.Random], Problem], wording: str, draw: Draw) -> Item:
    problem = kind(draw.rng)
    return Item(
        image=problem.figure.turned(draw.rng).draw(),
        question=wording.format(**problem.numbers),
        answer=problem.answer,
    )


def _write(rows: Sequence[Item], split: str, options: Any, folder: Path) -> None:
    if split == "train":
        cells = [
            {"image": r.image, "problem": r.question, "solution": f"<answer> {r.answer} </answer>"}
            for r in rows
        ]
        write_hub_table(folder / "data/train-00000-of-00001.parquet", COLUMNS, cells)
        return
    lines = []
    for number, row in enumerate(rows):
        name = f"Geo170K/images/test/{number}.png"
        write_bytes(folder / "src/eval" / name, encode_picture(row.image))
        lines.append(
            {"image_path": f"./{name}", "question": row.question, "ground_truth": row.answer}
        )
    write_lines(folder / "src/eval/prompts/geoqa_test_prompts.jsonl", lines)


def _templates(split: str) -> dict[str, Callable[[Draw], Item]]:
    return {
        wording: partial(_make, kind, wording)
        for kind, (givens, asks) in KINDS.items()
        for given, ask in PAIRS[split]
        for wording in [f"As shown in the figure, {givens[given]}, {asks[ask]} ()"]
    }


SYNTHETIC = Synthetic(templates={split: _templates(split) for split in PAIRS}, write=_write)
