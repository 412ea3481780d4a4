"""Records -> measures: what packs put their figures together from. No torch.

A sample that was answered several times has several records; then every value is a sample's mean (avg@k), or the chance
that one of k answers is right (pass@k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean

from vlrft.schema import DataError, Metric, Record

EPSILON = 1e-9  # a grade at its threshold is right whatever the rounding


def accuracy(records: Sequence[Record], grader: str, threshold: float = 1.0) -> Metric:
    """The mean grade; a sample's mean where it has several answers, of which each must have as many."""
    by_id = grades_of(records, grader)
    trials = {len(grades) for grades in by_id.values()}
    if len(trials) > 1:
        low, high = min(by_id, key=lambda i: len(by_id[i])), max(by_id, key=lambda i: len(by_id[i]))
        raise DataError(
            f"sample {low} has {len(by_id[low])} answers and {high} has {len(by_id[high])}; give each as many"
        )
    values = tuple(fmean(grades) for grades in by_id.values())
    return Metric(values=values, threshold=threshold, trials=trials.pop() if trials else 1)


def share_above(records: Sequence[Record], grader: str, threshold: float) -> Metric:
    """How many grades reach the threshold, such as Acc@0.5 of an IoU."""
    by_id = grades_of(records, grader)
    values = tuple(fmean(float(reaches(g, threshold)) for g in own) for own in by_id.values())
    return Metric(values=values, trials=max(map(len, by_id.values()), default=1))


def pass_at_k(records: Sequence[Record], grader: str, k: int, threshold: float = 1.0) -> Metric:
    """1 − C(n−c, k) / C(n, k) for c right answers of n: without bias (Chen et al. 2021, arXiv 2107.03374, equation 1).

    Raises DataError when a sample has fewer than k answers.
    """
    values: list[float] = []
    for name, grades in grades_of(records, grader).items():
        n, right = len(grades), sum(reaches(g, threshold) for g in grades)
        if n < k:
            raise DataError(
                f"pass@{k}: sample {name} has only {n} answers; sample more or use a smaller k"
            )
        values.append(1 - comb(n - right, k) / comb(n, k))
    return Metric(values=tuple(values))


def sampled_metrics(
    records: Sequence[Record], grader: str, name: str = "accuracy"
) -> dict[str, Metric]:
    """`accuracy` of one answer a sample; of k > 1, avg@k and pass@ the powers of two up to k."""
    counts = [len(g) for g in grades_of(records, grader).values()]
    most = min(counts, default=1)
    if max(counts, default=1) == 1:
        return {name: accuracy(records, grader)}
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if 1 < k <= most]
    passes = {f"pass@{k}": pass_at_k(records, grader, k) for k in ks}
    return {f"avg@{most}": accuracy(records, grader), **passes}


def per_tag(
    records: Sequence[Record], grader: str, tag: str, threshold: float = 1.0
) -> dict[str, Metric]:
    """`accuracy` of the records of each value of a tag, in the order in which they appear."""
    names = dict.fromkeys(r.tags[tag] for r in records if tag in r.tags)
    return {
        name: accuracy([r for r in records if r.tags.get(tag) == name], grader, threshold)
        for name in names
    }


def macro(records: Sequence[Record], grader: str, tag: str) -> Metric:
    """The unweighted mean of the accuracies of each value of a tag; a sample's mean where it has several answers."""
    by_id = grades_of(records, grader)
    kinds = {r.id: r.tags.get(tag, "") for r in records}
    values, own = [fmean(g) for g in by_id.values()], [kinds[i] for i in by_id]

    def mean(places: Sequence[int]) -> float:
        found: dict[str, list[float]] = {}
        for place in places:
            found.setdefault(own[place], []).append(values[place])
        return fmean(fmean(v) for v in found.values())

    trials = len(next(iter(by_id.values()), [0.0]))
    return Metric(values=tuple(values), trials=trials, aggregate=mean)


def grades_of(records: Sequence[Record], grader: str) -> Mapping[str, list[float]]:
    """Sample id -> the grades of its answers."""
    found: dict[str, list[float]] = {}
    for record in records:
        found.setdefault(record.id, []).append(record.grades[grader])
    return found


def reaches(grade: float, threshold: float) -> bool:
    return grade >= threshold - EPSILON
