"""Counting: how many things a picture shows (CLEVR for training, 200 SuperCLEVR questions as test).

Raw forms: the hub's `leonardPKU/clevr_cogen_a_train` (image, problem, solution), and R1-V's
`superclevr_test200_counting_problems.jsonl` (image_path, question, ground_truth) beside its images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vlrft.data import Dataset, Defect, Row, Source, asked, content, qa_rows, read_prompt, untagged
from vlrft.grading import read_answer, read_integer
from vlrft.grading.metrics import accuracy_metrics
from vlrft.schema import Metric, Record, Sample, Task


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where the data are, and which prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; the hub's training set unless given. The test split has no
    home."""
    prompt: Literal["clean", "released"] = "clean"


def read(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    released = any("test200" in name for name in source.names())
    table = "test200" if split == "test" and released else None
    return qa_rows(source, split, table=table, gold=number, seen=True)


def number(cells: Mapping[str, Any]) -> int:
    """The gold answer as a whole number. Raises ValueError for another."""
    given = next(
        cells[k] for k in ("solution", "ground_truth", "answer") if cells.get(k) is not None
    )
    found = read_integer(str(untagged(given)))
    if found is None:
        raise ValueError(f"gold answer {given!r} is no whole number")
    return found


def sample(row: Row, options: Options) -> Sample:
    name = options.prompt if options.prompt == "clean" else f"released_{row.info['split']}"
    text = read_prompt(__file__, name).replace("{question}", row.question)
    return asked(row, content(text))


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy; beside the strict one how far the answers are off (less is better), over those that
    are numbers."""
    found = accuracy_metrics(records, grader)
    said = [(read_answer(r.output), r.answer) for r in records]
    off = [abs(n - gold) for text, gold in said if text and (n := read_integer(text)) is not None]
    if grader == "strict" and off:
        found["mean absolute error"] = Metric(values=tuple(map(float, off)), share=False)
    return found


task = Task(
    name="counting",
    doc="Counting: how many things a picture shows (CLEVR train, 200 SuperCLEVR questions test).",
    options=Options,
    splits=("train", "test"),
    load=Dataset(read=read, sample=sample, homes={"train": "leonardPKU/clevr_cogen_a_train"}),
    rewards={"count": 1.0, "format": 1.0},
    graders={"strict": ("count",), "official": ("count.r1v_eval",)},
    metrics=metrics,
    gold=lambda s: f"<think></think><answer>{s.answer}</answer>",
)
