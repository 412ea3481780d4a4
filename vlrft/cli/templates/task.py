"""my_task: three questions about colours, to be replaced by your own.

Check it, then train on it:

    vlrft check ./my_task.py
    vlrft train my_task.yaml

where my_task.yaml contains

    task: ./my_task.py
    policy: {build: {family: qwen2}}
    rollout: {max_tokens: 12}
    stages: [{algorithm: sft, steps: 50, update: {lr: 1.0e-3}}, {algorithm: gpg, steps: 20, prompts_per_step: 3}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlrft.grading.metrics import accuracy
from vlrft.schema import Message, Metric, Record, Sample, Task

ROWS = (
    {"question": "What colour is the sky on a clear day?", "answer": "blue"},
    {"question": "What colour is fresh grass?", "answer": "green"},
    {"question": "What colour is a ripe banana?", "answer": "yellow"},
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keys that a config may set: `task: {name: ./my_task.py, options: {hint: …}}`."""

    hint: str = "Answer with one word in <answer>…</answer>."


def load(split: str, options: Any) -> list[Sample]:
    """The samples of a split. Rows may come from anywhere; `vlrft.data` reads tables and images."""

    def sample(number: int, row: Mapping[str, str]) -> Sample:
        text = f"{row['question']} {options.hint}"
        # With an image: content=(IMAGE, text) here, and images=(image,) below.
        ask = Message(role="user", content=(text,))
        return Sample(id=f"{split}/{number}", messages=(ask,), answer=row["answer"])

    return [sample(number, row) for number, row in enumerate(ROWS)]


def gold(sample: Sample) -> str:
    """The completion that earns full marks, and that `sft` trains on."""
    return f"<answer>{sample.answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The metrics of an evaluation; the first is the headline."""
    return {"accuracy": accuracy(records, grader)}


task = Task(
    name="my_task",
    doc="Three questions about colours.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"choice": 1.0, "format": 0.1},
    graders={"strict": ("choice",)},
    metrics=metrics,
    gold=gold,
)
