"""Text mathematics: training and test sets by name, the published prompts, avg@k and pass@k.

Raw forms of `data`: a folder with a table for each set, `gsm8k.jsonl`, or a folder with its splits, `gsm8k/train.parquet`; a
copy of a set's repository (openai/gsm8k with `main/train-*.parquet`, DigitalLearningGmbH/MATH-lighteval, …) or its single
file, where one set is asked for; Dr. GRPO's evaluation suite (hub: lkevinzc/math-eval, or its folder of `save_to_disk`). Of
a set without published splits, one row in ten is in the test split, by the hash of its question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vlrft.data import Dataset, Row, read_prompt
from vlrft.grading.metrics import accuracy_metrics, macro_accuracy
from vlrft.schema import Message, Metric, Record, Sample, Task

from .countdown import solve
from .options import Options
from .rows import read, select_rows
from .sets import SETS

ROLES = ("system", "user", "plain")
FORMS = {  # tags of the prompts that do not ask for a box alone
    "clean": {"form": "tagged"},
    "r1": {"form": "spaced", "opened": "<think>"},
    "short": {"form": "answer"},
    "open_rs": {"form": "boxed"},
}


def sources(options: Options) -> Mapping[str, str]:
    """The hub id of the first set of each split; the other sets are opened when they are read."""
    first = {"train": SETS[options.train].hub, "test": SETS[options.test[0]].hub}
    return {split: hub for split, hub in first.items() if hub is not None}


def sample(row: Row, options: Options) -> Sample:
    folder = Path(__file__).parent / "prompts"
    roles = [r for r in ROLES if (folder / f"{options.prompt}.{r}.txt").exists()]
    messages = tuple(
        Message(
            role=role,  # type: ignore[arg-type]
            content=(
                read_prompt(__file__, f"{options.prompt}.{role}").replace(
                    "{question}", row.question
                ),
            ),
        )
        for role in roles
    )
    tags = {**row.tags, **FORMS.get(options.prompt, {"form": "box"})}
    return Sample(id=row.id, messages=messages, answer=row.answer, tags=tags, info=row.info)


def gold(sample: Sample) -> str:
    """The gold answer in the form that the prompt asks for; for Countdown, one of the solutions."""
    answer = sample.answer[0] if isinstance(sample.answer, list) else sample.answer
    if isinstance(answer, dict):
        answer = solve(answer["nums"], answer["target"])
    form, opened = sample.tags.get("form"), sample.tags.get("opened", "")
    thought = "" if form in ("answer", "box") else "<think></think>"
    thought += " " if form == "spaced" else ""
    boxed = form in ("boxed", "box")
    text = f"\\boxed{{{answer}}}" if boxed else f"<answer>{answer}</answer>"
    return f"{thought}{text}".removeprefix(opened)


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy, or avg@k and pass@k; of several sets the mean over the sets first, then each set."""
    sets = dict.fromkeys(r.tags["kind"] for r in records)
    if len(sets) < 2:
        return accuracy_metrics(records, grader)
    metrics = {"mean": macro_accuracy(records, grader, "kind")}
    for name in sets:
        of_set = accuracy_metrics([r for r in records if r.tags["kind"] == name], grader)
        metrics |= {name if key == "accuracy" else f"{name} {key}": m for key, m in of_set.items()}
    return metrics


task = Task(
    name="textmath",
    doc="Text mathematics: GSM8K, MATH, DAPO-17k, AIME, AMC, … by name, avg@k and pass@k.",
    options=Options,
    splits=("train", "test"),
    load=Dataset(read=read, sample=sample, sources=sources, select=select_rows),
    rewards={"math_answer": 1.0, "countdown": 1.0, "format": 1.0},
    graders={
        "strict": ("math_answer", "countdown"),
        "official": ("math_answer.dr_grpo", "countdown"),
    },
    metrics=metrics,
    gold=gold,
)
