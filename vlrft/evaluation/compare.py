"""Comparison of two evaluations of the same samples, with confidence intervals and significance. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from vlrft.evaluation.bootstrap import Interval, paired_gain
from vlrft.grading.metrics import reaches_threshold
from vlrft.schema import DataError, Record
from vlrft.schema.errors import ConfigError
from vlrft.schema.pluralize import pluralize


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
    before: Sequence[Record],
    after: Sequence[Record],
    grader: str,
    threshold: float,
    tag: str | None = None,
) -> list[Comparison]:
    """Compares all samples, then those with each value of the tag, unless all samples have the same one; without a tag, those
    of each kind where samples have kinds. A sample is right when its mean grade reaches the threshold.

    Raises DataError where the samples differ, or where a record has no grade of this grader; ConfigError for a tag that
    no sample has.
    """
    old, new = _by_id(before, grader), _by_id(after, grader)
    if old.keys() != new.keys():
        unmatched = sorted(old.keys() ^ new.keys())
        raise DataError(
            f"only one of the two evaluations has {pluralize(len(unmatched), 'sample')}, such as {unmatched[0]!r}; compare evaluations of the same samples"
        )
    if tag is not None and not any(tag in r.tags for r in before):
        tags = ", ".join(sorted({name for r in before for name in r.tags}))
        raise ConfigError([f"--by {tag}: no sample has this tag; tags: {tags or 'none'}"])
    values = {r.id: r.tags.get(tag or "kind", "") for r in before}
    rows = [_row("all", list(old), old, new, threshold)]
    names = [name for name in dict.fromkeys(values.values()) if name]
    if len(names) > 1 or "" in values.values():
        for name in names:
            rows.append(_row(name, [i for i in old if values[i] == name], old, new, threshold))
    return rows


def mcnemar(gained: int, lost: int) -> float:
    """McNemar's exact two-sided p-value (1947): the probability of a split of the changed samples that is at least as uneven,
    if gains and losses are equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


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
