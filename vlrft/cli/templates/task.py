"""my_task: pictures of a coloured square and a question on each, to be replaced by your own.

Check it, then train on it:

    vlrft check ./my_task.py
    vlrft train my_task.yaml

where my_task.yaml contains

    task: ./my_task.py
    policy: {build: {family: qwen2_vl}}
    rollout: {max_tokens: 12}
    stages: [{algorithm: sft, steps: 50, update: {lr: 1.0e-3}}, {algorithm: gpg, steps: 20, prompts_per_step: 3}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from vlrft.grading.metrics import accuracy
from vlrft.schema import IMAGE, Message, Metric, Record, Sample, Task

QUESTION = "What colour is the square?"
COLOURS = ("blue", "green", "yellow")
SIDE = 56  # pixels


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keys that a config may set: `task: {name: ./my_task.py, options: {hint: …}}`."""

    hint: str = "Answer with one word, in this form: <answer>word</answer>"
    """The form that the rewards `choice` and `format` read: a model that is not asked for it earns nothing."""


def load(split: str, options: Any) -> list[Sample]:
    """The samples of a split. Pictures may come from anywhere: `Image.open(path).convert("RGB")` reads one of a file."""

    def sample(number: int, colour: str) -> Sample:
        picture = Image.new("RGB", (SIDE, SIDE), colour)
        ask = Message(role="user", content=(IMAGE, f"{QUESTION} {options.hint}"))
        return Sample(id=f"{split}/{number}", messages=(ask,), images=(picture,), answer=colour)

    return [sample(number, colour) for number, colour in enumerate(COLOURS)]


def gold(sample: Sample) -> str:
    """The completion that earns full marks, and that `sft` trains on."""
    return f"<answer>{sample.answer}</answer>"


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The metrics of an evaluation; the first is the headline."""
    return {"accuracy": accuracy(records, grader)}


task = Task(
    name="my_task",
    doc="The colour of a square.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"choice": 1.0, "format": 0.1},
    graders={"strict": ("choice",)},
    metrics=metrics,
    gold=gold,
)
