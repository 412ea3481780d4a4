"""A room from above, turn by turn: move the disc to the square. A multi-turn environment for small multimodal policies.

It needs no download and no extra. Every turn shows a picture, so that rollouts of many turns, their credit assignment and
their training rows can be tried in minutes without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from vlrft.data import LazySamples
from vlrft.grading.metrics import accuracy, accuracy_by_tag
from vlrft.schema import Metric, Record, Sample, Task

from .env import GridWorld, draw_picture, question
from .options import Options
from .world import draw_rooms

SPLITS = ("train", "test")


def load(split: str, options: Options) -> LazySamples:
    """The rooms of a split; the picture of a room is drawn on access."""
    rooms = draw_rooms(
        np.random.default_rng(SPLITS.index(split)),
        options.train if split == "train" else options.test,
        options.size,
        options.walls,
        (options.least, options.max_steps),
        held_out=split == "test",
    )

    def sample(index: int) -> Sample:
        room, distance = rooms[index]
        return Sample(
            id=f"gridworld/{split}/{index}",
            messages=question(),
            images=(draw_picture(room, options.cell),),
            tags={"kind": "gridworld", "distance": str(distance)},
            info={"room": room, "options": options},
        )

    return LazySamples(sample, range(len(rooms)))


def gold(sample: Sample) -> list[str]:
    """The moves of a shortest path."""
    return [f"<answer>{move}</answer>" for move in sample.info["room"].shortest_path()]


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Success, over all rooms and by the goal's distance in moves; the number of turns, the share of readable answers and
    the directness of the episodes."""
    metrics = {"success": accuracy(records, grader)}
    by_distance = accuracy_by_tag(
        sorted(records, key=lambda r: int(r.tags["distance"])), grader, "distance"
    )
    metrics |= {f"success at {name}": metric for name, metric in by_distance.items()}
    for name, share in (("steps", False), ("valid", True), ("directness", True)):
        by_sample: dict[str, list[float]] = {}
        for record in records:
            by_sample.setdefault(record.id, []).append(float(record.scores.get(name) or 0.0))
        values = tuple(map(fmean, by_sample.values()))
        metrics[name] = Metric(values=values, share=share)
    return metrics


task = Task(
    name="gridworld",
    doc="A grid room as a picture each turn: move to the goal. Built in, no download.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={},
    graders={"strict": ("won",)},
    metrics=metrics,
    gold=gold,
    env=GridWorld,
    env_scores=("won", "steps", "valid", "directness"),
)
