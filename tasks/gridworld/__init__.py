"""A room seen from above, turn by turn: move the disc to the square. An environment for small policies that see.

Needs no download and no extra. Every turn is a picture, so that rollouts of many turns, their credit and their training
rows can be tried in minutes without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from vlrft.data import LazySamples
from vlrft.grading.metrics import accuracy, accuracy_by_tag
from vlrft.schema import Metric, Record, Sample, Task

from .env import GridWorld, ask, picture
from .options import Options
from .world import draw_rooms

SPLITS = ("train", "test")


def rooms(split: str, options: Options) -> LazySamples:
    """The rooms of a split; a picture is drawn when its room is asked for."""
    drawn = draw_rooms(
        np.random.default_rng(SPLITS.index(split)),
        options.train if split == "train" else options.test,
        options.size,
        options.walls,
        (options.least, options.max_steps),
        held_out=split == "test",
    )

    def sample(index: int) -> Sample:
        room, distance = drawn[index]
        return Sample(
            id=f"gridworld/{split}/{index}",
            messages=ask(),
            images=(picture(room, options.cell),),
            tags={"kind": "gridworld", "distance": str(distance)},
            info={"room": room, "options": options},
        )

    return LazySamples(sample, range(len(drawn)))


def gold(sample: Sample) -> list[str]:
    """A shortest way."""
    return [f"<answer>{move}</answer>" for move in sample.info["room"].way()]


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Success, by moves that the goal is away, and turns, readable answers and directness of all plays."""
    found = {"success": accuracy(records, grader)}
    far = accuracy_by_tag(
        sorted(records, key=lambda r: int(r.tags["distance"])), grader, "distance"
    )
    found |= {f"success at {name}": measure for name, measure in far.items()}
    for name, share in (("steps", False), ("valid", True), ("directness", True)):
        by_id: dict[str, list[float]] = {}
        for record in records:
            by_id.setdefault(record.id, []).append(float(record.scores.get(name) or 0.0))
        values = tuple(fmean(own) for own in by_id.values())
        found[name] = Metric(values=values, share=share)
    return found


task = Task(
    name="gridworld",
    doc="A grid room as a picture each turn: move to the goal. Built in, no download.",
    options=Options,
    splits=SPLITS,
    load=rooms,
    rewards={},
    graders={"strict": ("won",)},
    metrics=metrics,
    gold=gold,
    env=GridWorld,
    env_scores=("won", "steps", "valid", "directness"),
)
