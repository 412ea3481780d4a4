"""ALFWorld on the real engine: find, clean, heat, cool, place and look at things in rooms told in words.

Needs `pip install 'vlrft[alfworld]'`, and games: ALFRED's own, or those that `vlrft data prepare alfworld` makes.
Protocol and prompt are those of verl-agent (GiGPO, arXiv 2505.10978).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from vlrft.grading.metrics import accuracy, accuracy_by_tag
from vlrft.schema import Env, Metric, Record, Sample, Task

from .families import SPLITS
from .folder import load
from .options import Options

SHARES = ("valid", "admissible")  # of a play's turns


def environment(sample: Sample) -> Env:
    from .env import AlfworldEnv

    return AlfworldEnv(sample)


def gold(sample: Sample) -> tuple[str, ...]:
    """An expert's play, turn by turn, in the form of an answer."""
    from .experts import expert

    commands = expert(sample, sample.info["expert"])
    return tuple(f"<think></think><action>{command}</action>" for command in commands)


def generate(split: str, count: int, seed: int, folder: Path) -> Iterator[str]:
    from .games import generate

    return generate(split, count, seed, folder)


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Games won, all and by family; then how many turns a play took, and the shares of its turns in which an action
    could be read, and in which it was one that the engine offered."""
    found = {"success": accuracy(records, grader), **accuracy_by_tag(records, grader, "kind")}
    if grader == "strict":
        for name in ("steps", *SHARES):
            values = _means(records, name)
            if values:
                found[name] = Metric(values=values, share=name in SHARES)
    return found


def _means(records: Sequence[Record], score: str) -> tuple[float, ...]:
    """A score's mean over each sample's plays; none where records have no such score."""
    by_id: dict[str, list[float]] = {}
    for record in records:
        value = record.scores.get(score)
        if value is not None:
            by_id.setdefault(record.id, []).append(value)
    return tuple(map(fmean, by_id.values()))


task = Task(
    name="alfworld",
    doc="ALFWorld: household tasks in text, many turns, on the real engine. Makes its own games.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={},
    graders={"strict": ("won",)},
    gold=gold,
    metrics=metrics,
    env=environment,
    env_scores=("won", "steps", "valid", "admissible"),
    generate=generate,
)
