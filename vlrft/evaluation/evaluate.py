"""Samples -> graded records -> metrics. Samples are played and scored as in training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from vlrft.config import EvalConfig, RolloutConfig
from vlrft.evaluation.bootstrap import Interval
from vlrft.evaluation.details.tables import Details, make_details
from vlrft.evaluation.intervals import metric_interval
from vlrft.grading.metrics import accuracy_metrics, correct_answers
from vlrft.plugins.attribution import attributed
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
from vlrft.schema.errors import NoRowsError
from vlrft.schema.finite_number import read_finite
from vlrft.scoring.graders import STRICT
from vlrft.selection.prefetch import Prefetcher

EVAL_CHUNK = 128  # samples whose records are completed at a time, which bounds the images in memory


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """The value of one metric with its counts and its 95 % interval."""

    correct: int
    n: int
    score: float
    ci: Interval
    ci_method: str  # "wilson" or "bootstrap"
    values: tuple[float, ...]  # one per item, in the order of the samples
    threshold: float = 1.0
    share: bool = True

    @staticmethod
    def of(metric: Metric) -> MetricValue:
        """Raises DataError for a score that is no finite number, and where no resample has such a score."""
        values = metric.values
        score = metric.aggregate(range(len(values))) if metric.aggregate else fmean(values)
        try:
            score = read_finite(score)
        except ValueError as e:
            raise DataError(f"its score is {e}; let its `aggregate` return one") from None
        ci, ci_method = metric_interval(values, metric.aggregate, share=metric.share)
        return MetricValue(
            correct=correct_answers(metric),
            n=len(values) * metric.trials,
            score=score,
            ci=ci,
            ci_method=ci_method,
            values=values,
            threshold=metric.threshold,
            share=metric.share,
        )

    def to_json(self) -> dict[str, Any]:
        content = {
            "correct": self.correct,
            "n": self.n,
            "score": self.score,
            "ci": list(self.ci),
            "ci_method": self.ci_method,
            "threshold": self.threshold,
        }
        return content if self.share else {**content, "share": False}

    def __str__(self) -> str:
        """`correct/n  score [low, high]`, a share in percent."""
        if not self.share:
            return f"{self.score:.3f} [{self.ci[0]:.3f}, {self.ci[1]:.3f}] over {self.n}"
        low, high = (100 * v for v in self.ci)
        return f"{self.correct}/{self.n}  {100 * self.score:.2f} [{low:.2f}, {high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The metrics of one task and split by each of its graders, and the records they are computed from."""

    graded: Mapping[str, Mapping[str, MetricValue]]
    """Grader -> name of a metric -> its value; the first metric is the headline."""
    records: tuple[Record, ...]
    details: Details = field(default_factory=Details)  # tables of classes and boxes

    @property
    def scores(self) -> dict[str, MetricValue]:
        """Every metric by its name; for another grader than the strict one, the name includes the grader."""
        return {
            name if grader == STRICT else f"{name} ({grader})": value
            for grader, metrics in self.graded.items()
            for name, value in metrics.items()
        }

    @property
    def mean(self) -> float:
        """The unweighted mean of the strict grader's metrics that are shares. The best checkpoint has the highest. Raises DataError
        where none is one."""
        shares = [value.score for value in self.graded[STRICT].values() if value.share]
        if not shares:
            raise DataError(
                f"the strict grader's metrics ({', '.join(self.graded[STRICT]) or 'none'}) have no share, by whose mean checkpoints are "
                "compared; let the task's metrics() return one, such as accuracy"
            )
        return fmean(shares)

    def to_json(self) -> dict[str, Any]:
        """The metrics without the values of single items."""
        return {name: value.to_json() for name, value in self.scores.items()}


def compute_metrics(task: Task, records: Sequence[Record]) -> Evaluation:
    """The task's metrics over graded records, for each grader that applies to them.

    Raises DataError where there is nothing to measure, and for a grader that applies to only some of the records.
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
        metrics = _metrics_of(task, records, grader)
        graded[grader] = {name: _measure(task, name, m) for name, m in metrics.items() if m.values}
        if not graded[grader]:
            raise DataError(
                f"task {task.name}: nothing to measure on {len(records)} records; check the split and the options"
            )
    return Evaluation(graded=graded, records=tuple(records), details=make_details(task, records))


def _measure(task: Task, name: str, metric: Metric) -> MetricValue:
    """The metric's value. Raises DataError for an `aggregate` that raises, or has no finite value."""
    with attributed(f"task {task.name}: the `aggregate` of its metric {name!r}"):
        try:
            return MetricValue.of(metric)
        except DataError as e:
            raise DataError(f"task {task.name}: metric {name!r}: {e}") from e


def _metrics_of(task: Task, records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """The task's metrics. Raises DataError for metrics that raise or have values that are not finite numbers."""
    if task.metrics is None:
        return accuracy_metrics(records, grader)
    with attributed(f"task {task.name}: its `metrics`"):
        metrics = task.metrics(records, grader)
    for name, metric in metrics.items():
        for value in metric.values:
            try:
                read_finite(value)
            except ValueError as e:
                raise DataError(
                    f"task {task.name}: a value of its metric {name!r} is {e}"
                ) from None
    return metrics


def chunk_size(rollout: RolloutConfig, decoding: EvalConfig) -> int:
    """Samples that are played at a time: as many as a rollout engine samples at once."""
    return max(1, rollout.max_rows // decoding.answers)


def evaluate(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    play: Callable[[Sequence[Sample]], Sequence[Group]],
    size: int = EVAL_CHUNK,
) -> Evaluation:
    """Plays and grades every sample, `size` at a time, and computes the metrics. `play` returns one scored group per sample, in
    order.

    Raises DataError where there is nothing to evaluate.
    """
    if not len(samples):
        raise NoRowsError(
            f"task {loaded.task.name}: no samples to evaluate; check the split and the limit"
        )
    return compute_metrics(
        loaded.task, [r for chunk in grade_samples(loaded, samples, play, size) for r in chunk]
    )


def grade_samples(
    loaded: LoadedTask,
    samples: Sequence[Sample],
    play: Callable[[Sequence[Sample]], Sequence[Group]],
    size: int = EVAL_CHUNK,
    skip: Collection[int] = (),
) -> Iterator[list[Record]]:
    """Yields the records of `size` samples at a time. `skip`: indices of samples that are not played. With a `Prefetcher` as
    samples, the images of the next ones are processed while these are played."""
    indices = [i for i in range(len(samples)) if i not in skip]
    if isinstance(samples, Prefetcher):
        samples.announce(indices[:size])
    for start in range(0, len(indices), size):
        chunk = [samples[i] for i in indices[start : start + size]]
        if isinstance(samples, Prefetcher):
            following = start + size
            samples.announce(indices[following : following + size])
        records = [
            grade_rollout(loaded, sample, r)
            for sample, group in zip(chunk, play(chunk), strict=True)
            for r in group.rollouts
        ]
        with attributed(f"task {loaded.task.name}: its `complete`"):
            completed = list(loaded.complete_records(chunk, records))
        yield completed


def grade_rollout(loaded: LoadedTask, sample: Sample, rollout: Rollout) -> Record:
    """The record of one rollout. Where its environment failed, scores that the environment has not given yet are 0.0.

    Raises DataError where an environment that did not fail gave no value for one of the task's `env_scores`.
    """
    required = loaded.task.env_scores
    defaults = dict.fromkeys(required, 0.0) if ENVIRONMENT in rollout.errors else {}
    if missing := [n for n in required if n not in defaults and n not in rollout.scores]:
        raise DataError(
            f"sample {sample.id}: its environment gave no score {missing[0]!r}, which is among the env_scores of task "
            f"{loaded.task.name}: each of its steps must give it, because any step may be the last"
        )
    turns = [(piece.text, piece.turn) for piece in rollout.sampled_pieces if piece.turn is not None]
    return loaded.graders.record(
        sample,
        rollout.text,
        scores={**defaults, **rollout.scores},
        errors=rollout.errors,
        truncated=rollout.truncated,
        turns=tuple(turns),
    )


def mean_score(scores: Mapping[str, float | None]) -> float:
    """The mean of the scores that apply, 0.0 where none does; it orders records from worst to best."""
    values = [value for value in scores.values() if value is not None]
    return fmean(values) if values else 0.0
