"""The calculation that makes one number of two others: `27 and 18 make 486:` -> `27 * 18`.

Lines of plain text for a pretrained model: solved lines precede each question, and the model writes the rest of the
last one. It needs no download. Two numbers that occur in a question of one split occur together in no question of the other,
and in no solved line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlrft.data import LazySamples
from vlrft.grading.metrics import accuracy_by_tag, accuracy_metrics
from vlrft.schema import Message, Metric, Record, Sample, Task

from .lines import NAMES, SOLVED, split_lines
from .options import Options


def load(split: str, options: Options) -> LazySamples:
    """The questions of a split."""
    lines = split_lines(split, options.largest)
    solved = "".join(f"{line.question} {line.calculation}\n" for line in SOLVED[: options.shots])

    def sample(index: int) -> Sample:
        line = lines[index]
        prompt = Message(role="plain", content=(solved + line.question,))
        return Sample(
            id=f"arithmetic/{split}/{index}",
            messages=(prompt,),
            answer={"nums": list(line.numbers), "target": line.result},
            tags={"kind": NAMES[line.operation], "answer": "countdown"},
            info={"calculation": line.calculation},
        )

    return LazySamples(sample, range(len(lines)))


def gold(sample: Sample) -> str:
    """The calculation of the question, as it follows the colon."""
    return f" {sample.info['calculation']}"


def extract(completion: str) -> str | None:
    """The whole completion without white space around it; None where nothing is left."""
    return completion.strip() or None


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Accuracy, or avg@k and pass@k, of all questions, and accuracy by operation."""
    return {**accuracy_metrics(records, grader), **accuracy_by_tag(records, grader, "kind")}


task = Task(
    name="arithmetic",
    doc="Which calculation makes a number of two others, for a small pretrained model. Built in, no download.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"countdown.line": 1.0},
    graders={"strict": ("countdown.line",)},
    metrics=metrics,
    gold=gold,
    extract=extract,
)
