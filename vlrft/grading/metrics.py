"""Metrics of graded records: functions from which a task composes its metrics. No torch.

A sample with several answers has several records; each value is then the sample's mean (avg@k), or the probability that
at least one of k answers is right (pass@k).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean
from types import MappingProxyType

from vlrft.schema import DataError, Metric, Record

ROUNDING = 1e-9  # a grade that rounding put just below the threshold still reaches it


def accuracy(records: Sequence[Record], grader: str, threshold: float = 1.0) -> Metric:
    """The mean grade; for several answers a sample, of the samples' means.

    Raises DataError when samples differ in their number of answers.
    """
    by_id = grades_by_sample(records, grader)
    trials = {len(grades) for grades in by_id.values()}
    if len(trials) > 1:
        low, high = min(by_id, key=lambda i: len(by_id[i])), max(by_id, key=lambda i: len(by_id[i]))
        raise DataError(
            f"sample {low} has {len(by_id[low])} answers and {high} has {len(by_id[high])}: "
            "every sample needs the same number of answers"
        )
    values = tuple(fmean(grades) for grades in by_id.values())
    return Metric(
        values=values,
        threshold=threshold,
        trials=trials.pop() if trials else 1,
        correct=count_correct(by_id.values(), threshold),
    )


def share_above(records: Sequence[Record], grader: str, threshold: float) -> Metric:
    """The share of grades that reach the threshold, such as Acc@0.5 of an IoU."""
    by_id = grades_by_sample(records, grader)
    values = tuple(
        fmean(float(reaches_threshold(g, threshold)) for g in grades) for grades in by_id.values()
    )
    trials = max(map(len, by_id.values()), default=1)
    return Metric(values=values, trials=trials, correct=count_correct(by_id.values(), threshold))


def pass_at_k(records: Sequence[Record], grader: str, k: int, threshold: float = 1.0) -> Metric:
    """1 − C(n−c, k) / C(n, k) for c right answers of n: unbiased (Chen et al. 2021, arXiv 2107.03374, equation 1).

    Raises DataError when a sample has fewer than k answers.
    """
    values: list[float] = []
    for name, grades in grades_by_sample(records, grader).items():
        n, right = len(grades), sum(reaches_threshold(g, threshold) for g in grades)
        if n < k:
            raise DataError(
                f"pass@{k}: sample {name} has only {n} answers; sample more answers, or use a smaller k"
            )
        values.append(1 - comb(n - right, k) / comb(n, k))
    return Metric(values=tuple(values))


def accuracy_metrics(
    records: Sequence[Record], grader: str, name: str = "accuracy"
) -> dict[str, Metric]:
    """Accuracy of one answer a sample, under `name`; of k > 1 answers, avg@k, and pass@ each power of two up to k."""
    counts = [len(g) for g in grades_by_sample(records, grader).values()]
    answers = min(counts, default=1)
    if max(counts, default=1) == 1:
        return {name: accuracy(records, grader)}
    ks = [k for k in (2, 4, 8, 16, 32, 64, 128) if k <= answers]
    passes = {f"pass@{k}": pass_at_k(records, grader, k) for k in ks}
    return {f"avg@{answers}": accuracy(records, grader), **passes}


def accuracy_by_tag(
    records: Sequence[Record],
    grader: str,
    tag: str,
    *,
    order: Sequence[str] = (),
    thresholds: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Metric]:
    """The accuracy of each value of a tag that there are records of: those of `order` in that order, then others as they appear.
    `thresholds`: of values whose grades are no 0 or 1, such as an IoU; 1 for the others."""
    found = dict.fromkeys(r.tags[tag] for r in records if tag in r.tags)
    names = dict.fromkeys([*(name for name in order if name in found), *found])
    return {
        name: accuracy(
            [r for r in records if r.tags.get(tag) == name], grader, thresholds.get(name, 1.0)
        )
        for name in names
    }


def macro_accuracy(records: Sequence[Record], grader: str, tag: str) -> Metric:
    """The unweighted mean of the accuracies of a tag's values; for several answers a sample, of the samples' means."""
    by_id = grades_by_sample(records, grader)
    tags = {r.id: r.tags.get(tag, "") for r in records}
    values, item_tags = [fmean(g) for g in by_id.values()], [tags[i] for i in by_id]

    def mean_of_means(items: Sequence[int]) -> float:
        by_tag: dict[str, list[float]] = {}
        for item in items:
            by_tag.setdefault(item_tags[item], []).append(values[item])
        return fmean(fmean(v) for v in by_tag.values())

    return Metric(
        values=tuple(values),
        trials=len(next(iter(by_id.values()), [0.0])),
        correct=count_correct(by_id.values()),
        aggregate=mean_of_means,
    )


def grades_by_sample(records: Sequence[Record], grader: str) -> Mapping[str, list[float]]:
    """Sample id -> the grades of its answers."""
    by_id: dict[str, list[float]] = {}
    for record in records:
        by_id.setdefault(record.id, []).append(record.grades[grader])
    return by_id


def count_correct(by_sample: Iterable[Sequence[float]], threshold: float = 1.0) -> int:
    """The number of answers whose grade reaches the threshold. `by_sample`: the grades of the answers to each sample."""
    return sum(reaches_threshold(g, threshold) for grades in by_sample for g in grades)


def correct_answers(metric: Metric) -> int:
    """The number of correct answers, as the metric says; else of its values that reach its threshold, or, of means of
    several answers, their sum."""
    if metric.correct is not None:
        return metric.correct
    if metric.trials == 1:
        return count_correct([metric.values], metric.threshold)
    return round(sum(metric.values) * metric.trials)


def reaches_threshold(grade: float, threshold: float) -> bool:
    """Whether the grade is at least the threshold, rounding aside."""
    return grade >= threshold - ROUNDING
