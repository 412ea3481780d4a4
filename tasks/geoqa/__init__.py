"""GeoQA: plane geometry with a diagram, free-form answers (R1-V's 8K training set, 754 test items).

Raw forms: the hub's `leonardPKU/GEOQA_R1V_Train_8K` (image, problem, solution), and for the test
split R1-V's `geoqa_test_prompts.jsonl` (image_path, question, ground_truth) next to Geo170K's
`images/test/`. The released prompt has two spaces in training and one in the test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from vlrft.data import (
    Dataset,
    Defect,
    Layout,
    Layouts,
    Row,
    Source,
    has_tables,
    read_prompt,
    read_qa_rows,
    split_at_images,
    user_sample,
)
from vlrft.schema import Sample, Task

from .synthetic import SYNTHETIC


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; the hub's training set unless given. The test split is not on the hub."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""


GOLD = ("solution", "ground_truth", "answer")


def _read_prompts(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    return read_qa_rows(source, split, table="geoqa_test_prompts", gold=GOLD, images_required=True)


def _has_prompts(source: Source, split: str, options: Options) -> bool:
    return any(PurePosixPath(name).name == "geoqa_test_prompts.jsonl" for name in source.names())


def _read_table(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    return read_qa_rows(source, split, gold=GOLD, images_required=True)


LAYOUTS = Layouts(
    (
        Layout(
            name="geoqa_test_prompts.jsonl of R1-V's repository (src/eval/prompts/) next to Geo170K's images/test/*.png",
            found=_has_prompts,
            read=_read_prompts,
            splits=("test",),
        ),
        Layout(
            name="tables with image, problem and solution (the hub's leonardPKU/GEOQA_R1V_Train_8K: data/train-*.parquet)",
            found=has_tables,
            read=_read_table,
        ),
    )
)


def sample(row: Row, options: Options) -> Sample:
    name = options.prompt if options.prompt == "clean" else f"released_{row.info['split']}"
    text = read_prompt(__file__, name).replace("{question}", row.question)
    return user_sample(row, split_at_images(text))


task = Task(
    name="geoqa",
    doc="GeoQA: plane geometry with a diagram, free-form answers (8K train, 754 test).",
    options=Options,
    splits=("train", "test"),
    load=Dataset(
        read=LAYOUTS,
        sample=sample,
        sources={"train": "leonardPKU/GEOQA_R1V_Train_8K"},
        synthetic=SYNTHETIC,
    ),
    rewards={"math_answer": 1.0, "format": 1.0},
    graders={"strict": ("math_answer",), "official": ("math_answer.r1v_eval",)},
    # With the spaces of the published solutions: the official grader cannot read a number next to the tag.
    gold=lambda s: f"<think></think><answer> {s.answer} </answer>",
)
