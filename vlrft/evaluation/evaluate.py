"""Samples -> records -> figures. Playing and grading are those of training; decoding is greedy unless answers are many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from vlrft.evaluation.bootstrap import Interval, bootstrap
from vlrft.grading.metrics import accuracy_metrics, reaches_threshold
from vlrft.rollout.task import LoadedTask
from vlrft.schema import (
    ENVIRONMENT,
    DataError,
    Group,
    Metric,
    Record,
    Rollout,
    Sample,
    Task,
)
from vlrft.scoring.graders import STRICT

EVAL_CHUNK = 128  # samples whose pixels are held at once


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """One score of an evaluation with what it rests on."""

    correct: int
    n: int
    score: float
    ci: Interval
    values: tuple[float, ...]  # an item each, in the order of the samples
    threshold: float = 1.0
    share: bool = True

    @staticmethod
    def of(metric: Metric) -> MetricValue:
        values, trials = metric.values, metric.trials
        if trials == 1:
            correct = sum(reaches_threshold(v, metric.threshold) for v in values)
        else:
            correct = round(sum(values) * trials)
        everything = range(len(values))
        return MetricValue(
            correct=correct,
            n=len(values) * trials,
            score=float(metric.aggregate(everything) if metric.aggregate else fmean(values)),
            ci=bootstrap(values, metric.aggregate),
            values=values,
            threshold=metric.threshold,
            share=metric.share,
        )

    def to_json(self) -> dict[str, Any]:
        kind = {} if self.share else {"share": False}
        known = {"correct": self.correct, "n": self.n, "score": self.score, "ci": list(self.ci)}
        return known | kind

    def __str__(self) -> str:
        """`n correct / n  score [interval]`, a share in percent."""
        if not self.share:
            return f"{self.score:.3f} [{self.ci[0]:.3f}, {self.ci[1]:.3f}] over {self.n}"
        low, high = (100 * v for v in self.ci)
        return f"{self.correct}/{self.n}  {100 * self.score:.2f} [{low:.2f}, {high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The figures of one task and split by each of its graders, and every record behind them."""

    graded: Mapping[
        str, Mapping[str, MetricValue]
    ]  # grader -> measure -> figure; the first measure is the headline
    records: tuple[Record, ...]

    @property
    def scores(self) -> dict[str, MetricValue]:
        """Every figure; those of another grader than the strict one carry its name."""
        return {
            name if grader == STRICT else f"{name} ({grader})": figure
            for grader, figures in self.graded.items()
            for name, figure in figures.items()
        }

    @property
    def mean(self) -> float:
        """Unweighted mean of the strict scores: what "best checkpoint" means."""
        return fmean(f.score for f in self.graded[STRICT].values() if f.share)

    def to_json(self) -> dict[str, Any]:
        """The figures without the values behind them."""
        return {name: f.to_json() for name, f in self.scores.items()}


def compute_metrics(task: Task, records: Sequence[Record]) -> Evaluation:
    """The task's figures of graded records, by each grader that applies to them.

    Raises DataError when there is nothing to measure, and for a grader that applies to some records only.
    """
    graded: dict[str, dict[str, MetricValue]] = {}
    for grader in task.graders:
        without = [r.id for r in records if grader not in r.grades]
        if without and grader != STRICT and len(without) == len(records):
            continue
        if without:
            raise DataError(
                f"sample {without[0]}: no reward of the {grader} grader applies; check the task's graders and tags"
            )
        found = (task.metrics or accuracy_metrics)(records, grader)
        graded[grader] = {name: MetricValue.of(m) for name, m in found.items() if m.values}
        if not graded[grader]:
            raise DataError(
                f"task {task.name}: nothing to measure on {len(records)} records; check the split and the options"
            )
    return Evaluation(graded=graded, records=tuple(records))


def evaluate(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    play: Callable[[Sequence[Sample]], Sequence[Group]],
) -> Evaluation:
    """Plays every sample and measures. `play` returns a scored group a sample, in order.

    Raises DataError when there is nothing to evaluate.
    """
    if not len(samples):
        raise DataError(
            f"task {loaded.task.name}: no samples to evaluate; check the split and the limit"
        )
    return compute_metrics(
        loaded.task, [r for chunk in grade_samples(loaded, samples, play) for r in chunk]
    )


def grade_samples(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    play: Callable[[Sequence[Sample]], Sequence[Group]],
    skip: Collection[int] = (),
) -> Iterator[list[Record]]:
    """The records of a bounded number of samples at a time; samples at the places to skip are not played."""
    places = [i for i in range(len(samples)) if i not in skip]
    for start in range(0, len(places), EVAL_CHUNK):
        chunk = [samples[i] for i in places[start : start + EVAL_CHUNK]]
        records = [
            grade_rollout(loaded, sample, r)
            for sample, group in zip(chunk, play(chunk), strict=True)
            for r in group.rollouts
        ]
        yield list(loaded.completed(chunk, records))


def grade_rollout(loaded: LoadedTask, sample: Sample, played: Rollout) -> Record:
    """One play, graded. One whose environment failed has no more than what was scored until then; the rest is 0.

    Raises DataError where an environment that did not fail lacks one of the task's `env_scores`.
    """
    named = loaded.task.env_scores
    scores = dict.fromkeys(named, 0.0) if ENVIRONMENT in played.errors else {}
    if absent := [name for name in named if name not in scores and name not in played.scores]:
        raise DataError(
            f"sample {sample.id}: its environment gave no score {absent[0]!r}, which is among the env_scores of task "
            f"{loaded.task.name}: each of its steps must give it, for any may be the last"
        )
    said = [(piece.text, piece.turn) for piece in played.sampled_pieces if piece.turn is not None]
    return loaded.graders.record(
        sample,
        played.text,
        scores={**scores, **played.scores},
        errors=played.errors,
        truncated=played.truncated,
        turns=tuple(said),
    )


def mean_score(scores: Mapping[str, float | None]) -> float:
    """Mean of the scores that apply: what "worst" and "best" records mean."""
    known = [value for value in scores.values() if value is not None]
    return fmean(known) if known else 0.0
