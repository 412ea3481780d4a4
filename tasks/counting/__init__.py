"""Counting: how many things a picture shows (CLEVR for training, 200 SuperCLEVR questions as test).

Raw forms: the hub's `leonardPKU/clevr_cogen_a_train` (image, problem, solution), and R1-V's
`superclevr_test200_counting_problems.jsonl` (image_path, question, ground_truth) next to its images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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
    strip_answer_tag,
    user_sample,
)
from vlrft.grading import read_answer, read_integer
from vlrft.grading.metrics import accuracy_metrics
from vlrft.schema import Metric, Record, Sample, Task


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; the hub's training set unless given. The test split is not on the hub."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""


def _read_test200(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    return read_qa_rows(source, split, table="test200", answer=read_number, images_required=True)


def _has_test200(source: Source, split: str, options: Options) -> bool:
    return any("test200" in name for name in source.names())


def _read_table(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    return read_qa_rows(source, split, answer=read_number, images_required=True)


def read_number(cells: Mapping[str, Any]) -> int:
    """The gold answer as a whole number. Raises ValueError if it is none, KeyError without one."""
    columns = ("solution", "ground_truth", "answer")
    cell = next((cells[k] for k in columns if cells.get(k) is not None), None)
    if cell is None:
        raise KeyError(" or ".join(columns))
    number = read_integer(str(strip_answer_tag(cell)))
    if number is None:
        raise ValueError(f"gold answer {cell!r} is not a whole number")
    return number


LAYOUTS = Layouts(
    (
        Layout(
            name="superclevr_test200_counting_problems.jsonl of R1-V's repository (src/eval/prompts/) next to SuperCLEVR's "
            "images/*.png",
            found=_has_test200,
            read=_read_test200,
            splits=("test",),
        ),
        Layout(
            name="tables with image, problem and solution (the hub's leonardPKU/clevr_cogen_a_train: data/train-*.parquet)",
            found=has_tables,
            read=_read_table,
        ),
    )
)


def sample(row: Row, options: Options) -> Sample:
    name = options.prompt if options.prompt == "clean" else f"released_{row.info['split']}"
    text = read_prompt(__file__, name).replace("{question}", row.question)
    return user_sample(row, split_at_images(text))


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy; for the strict grader also the mean absolute error (less is better) of the answers that are numbers."""
    metrics = accuracy_metrics(records, grader)
    answers = [(read_answer(r.output), r.answer) for r in records]
    errors = [
        abs(n - int(gold))  # a gold answer of stored outputs may be a text
        for text, gold in answers
        if text and (n := read_integer(text)) is not None
    ]
    if grader == "strict" and errors:
        metrics["mean absolute error"] = Metric(values=tuple(map(float, errors)), share=False)
    return metrics


task = Task(
    name="counting",
    doc="Counting: how many things a picture shows (CLEVR train, 200 SuperCLEVR questions test).",
    options=Options,
    splits=("train", "test"),
    load=Dataset(read=LAYOUTS, sample=sample, sources={"train": "leonardPKU/clevr_cogen_a_train"}),
    rewards={"count": 1.0, "format": 1.0},
    graders={"strict": ("count",), "official": ("count.r1v_eval",)},
    metrics=metrics,
    gold=lambda s: f"<think></think><answer>{s.answer}</answer>",
)
