"""Samples -> rollouts -> figures. Playing and grading are those of training; only the decoding is greedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from vlrft.intervals import Interval, bootstrap
from vlrft.schema import DataError, Measure, Record, Rollout, Sample, Task


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One score of an evaluation with what it rests on."""

    correct: int
    n: int
    score: float
    ci: Interval
    values: tuple[float, ...]  # a record each, in the order of the samples

    @staticmethod
    def of(measure: Measure) -> Figure:
        values = measure.values
        aggregate = measure.aggregate or fmean
        return Figure(
            correct=sum(v >= measure.threshold - 1e-9 for v in values),
            n=len(values),
            score=float(aggregate(values)),
            ci=bootstrap(values, measure.aggregate),
            values=values,
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The figures of one task and split, and every record behind them."""

    scores: dict[str, Figure]
    records: tuple[Record, ...]

    @property
    def mean(self) -> float:
        """Unweighted mean of the scores: what "best checkpoint" means."""
        return fmean(f.score for f in self.scores.values())

    def to_json(self) -> dict[str, Any]:
        """The figures without the values behind them."""
        return {
            name: {"correct": f.correct, "n": f.n, "score": f.score, "ci": list(f.ci)}
            for name, f in self.scores.items()
        }


def earned(scores: Mapping[str, float | None]) -> float:
    """Mean of the scores that apply: what "worst" and "best" records mean."""
    known = [value for value in scores.values() if value is not None]
    return fmean(known) if known else 0.0


def evaluate(
    task: Task,
    samples: Sequence[Sample],
    play: Callable[[Sequence[Sample]], Sequence[Rollout]],
) -> Evaluation:
    """Plays every sample once and measures. `play` returns a scored rollout a sample, in order.

    Raises DataError when there is nothing to evaluate.
    """
    if not len(samples):
        raise DataError(f"task {task.name}: no samples to evaluate; check the split and the limit")
    records = tuple(
        Record(
            id=sample.id,
            output=rollout.text,
            scores=rollout.scores,
            tags=sample.tags,
            answer=sample.answer,
            truncated=rollout.truncated,
        )
        for sample, rollout in zip(samples, play(samples), strict=True)
    )
    measures = {name: m for name, m in task.measures(records).items() if m.values}
    if not measures:
        raise DataError(
            f"task {task.name}: nothing to measure on {len(records)} records; check the split and the options"
        )
    return Evaluation(scores={name: Figure.of(m) for name, m in measures.items()}, records=records)
