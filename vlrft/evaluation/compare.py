"""Comparison of two evaluations of the same samples, with confidence intervals and significance. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

from vlrft.evaluation.bootstrap import Interval, paired_gain
from vlrft.grading.metrics import reaches_threshold
from vlrft.schema import DataError, Record


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row of a comparison: all samples, or those with one value of a tag."""

    name: str
    n: int
    before: float
    after: float
    gain: float
    ci: Interval  # 95 %, paired bootstrap over samples
    gained: int  # samples that were wrong before and are right after
    lost: int  # samples that were right before and are wrong after
    p: float  # McNemar's exact two-sided test


def compare(
    before: Sequence[Record], after: Sequence[Record], grader: str, threshold: float, tag: str
) -> list[Comparison]:
    """Compares all samples, then those with each value of the tag. A sample is right when its mean grade reaches the
    threshold.

    Raises DataError where the samples differ, or where a record has no grade of this grader.
    """
    old, new = _by_id(before, grader), _by_id(after, grader)
    if old.keys() != new.keys():
        unmatched = sorted(old.keys() ^ new.keys())
        raise DataError(
            f"{len(unmatched)} samples are in only one of the two evaluations, such as {unmatched[0]!r}; compare evaluations of the same samples"
        )
    values = {r.id: r.tags.get(tag, "") for r in before}
    rows = [_row("all", list(old), old, new, threshold)]
    names = [name for name in dict.fromkeys(values.values()) if name]
    if len(names) > 1:
        for name in names:
            rows.append(_row(name, [i for i in old if values[i] == name], old, new, threshold))
    return rows


def mcnemar(gained: int, lost: int) -> float:
    """McNemar's exact two-sided p-value (1947): the probability of a split of the changed samples that is at least as uneven,
    if gains and losses are equally likely."""
    n, fewer = gained + lost, min(gained, lost)
    if n == 0:
        return 1.0
    tail = sum(comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * (tail / (1 << n)))


def _row(
    name: str,
    ids: Sequence[str],
    old: Mapping[str, float],
    new: Mapping[str, float],
    threshold: float,
) -> Comparison:
    before, after = [old[i] for i in ids], [new[i] for i in ids]
    gain, ci = paired_gain(before, after)
    pairs = [
        (reaches_threshold(b, threshold), reaches_threshold(a, threshold))
        for b, a in zip(before, after, strict=True)
    ]
    gained, lost = pairs.count((False, True)), pairs.count((True, False))
    return Comparison(
        name=name,
        n=len(ids),
        before=fmean(before),
        after=fmean(after),
        gain=gain,
        ci=ci,
        gained=gained,
        lost=lost,
        p=mcnemar(gained, lost),
    )


def _by_id(records: Sequence[Record], grader: str) -> dict[str, float]:
    grades: dict[str, list[float]] = {}
    for record in records:
        if grader not in record.grades:
            raise DataError(
                f"sample {record.id}: no {grader} grade; grade it with vlrft score or eval"
            )
        grades.setdefault(record.id, []).append(record.grades[grader])
    if not grades:
        raise DataError("there are no records to compare")
    return {name: fmean(values) for name, values in grades.items()}
