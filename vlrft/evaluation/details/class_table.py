"""Classification: the accuracy of each class, and the confusion matrix, by the strict grader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from vlrft.evaluation.bootstrap import Interval
from vlrft.evaluation.intervals import metric_interval
from vlrft.grading import class_key
from vlrft.grading.metrics import reaches_threshold
from vlrft.schema import Record
from vlrft.schema.pluralize import pluralize
from vlrft.scoring.graders import STRICT

OTHER, UNREADABLE = "(another name)", "(unreadable)"
"""Predictions that are none of the classes: no bracket can be taken for a class's own name, as in the columns of a matrix."""
ALL = 12  # classes that are all printed; of more, the worst
CONFUSIONS = 6  # that are printed


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """The accuracy of one class."""

    name: str
    n: int  # answers
    correct: int
    score: float
    ci: Interval  # 95 %, over samples


@dataclass(frozen=True, kw_only=True)
class ClassTable:
    """The classes of the gold answers, in alphabetical order, and the answers to them."""

    classes: tuple[ClassScore, ...]
    confusion: Mapping[str, Mapping[str, int]]
    """Class -> predicted class, OTHER or UNREADABLE -> number of answers."""

    @property
    def macro(self) -> float:
        """The mean of the classes' accuracies."""
        return fmean(c.score for c in self.classes)

    def confusions(self) -> list[tuple[str, str, int]]:
        """Class, wrong prediction and number of answers, the most common ones first."""
        pairs = [
            (true, predicted, n)
            for true, row in self.confusion.items()
            for predicted, n in row.items()
            if predicted != true
        ]
        return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))

    def to_json(self) -> dict[str, Any]:
        return {
            "macro": self.macro,
            "classes": {
                c.name: {"n": c.n, "correct": c.correct, "score": c.score, "ci": list(c.ci)}
                for c in self.classes
            },
            "confusion": {true: dict(row) for true, row in self.confusion.items()},
        }

    def lines(self) -> list[str]:
        """The table as text: all classes where they are few, else the worst, and the most common confusions."""
        ranked = sorted(self.classes, key=lambda c: (c.score, c.name))
        shown = ranked if len(ranked) <= ALL else ranked[: ALL // 2]
        which = "" if shown is ranked else ", the worst"
        classes = pluralize(len(ranked), "class", "classes")
        lines = [f"{classes}, mean accuracy {100 * self.macro:.2f}{which}:"]
        width = max(len(_short(c.name)) for c in shown)
        for c in shown:
            low, high = (100 * v for v in c.ci)
            lines.append(
                f"  {_short(c.name):{width}}  {c.correct:4d}/{c.n:<4d} {100 * c.score:6.2f} [{low:.2f}, {high:.2f}]"
            )
        pairs = [pair for pair in self.confusions() if pair[1] in self.confusion]
        if pairs:
            shown_pairs = (f"{_short(a)} -> {_short(b)} {n}" for a, b, n in pairs[:CONFUSIONS])
            lines.append(f"  most confused: {', '.join(shown_pairs)}")
        for kind in (OTHER, UNREADABLE):
            if n := sum(row.get(kind, 0) for row in self.confusion.values()):
                lines.append(f"  answers that are {kind[1:-1]}: {n}")
        return lines


def make_class_table(records: Sequence[Record]) -> ClassTable | None:
    """The table of records whose gold answers are names of classes; None without records."""
    if not records:
        return None
    names = sorted({str(record.answer) for record in records})
    by_key = {_key(name): name for name in names} | {class_key(name): name for name in names}
    confusion: dict[str, Counter[str]] = {name: Counter() for name in names}
    grades: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for record in records:
        true = str(record.answer)
        confusion[true][predicted_class(record, by_key)] += 1
        right = float(reaches_threshold(record.grades[STRICT], 1.0))
        grades[true].setdefault(record.id, []).append(right)
    return ClassTable(
        classes=tuple(_score(name, grades[name]) for name in names),
        confusion={name: dict(row.most_common()) for name, row in confusion.items()},
    )


def predicted_class(record: Record, by_key: Mapping[str, str]) -> str:
    """The class of an answer: the gold one where the strict grader says so, else the one of that name."""
    true = str(record.answer)
    if reaches_threshold(record.grades[STRICT], 1.0):
        return true
    if record.unreadable or record.extracted is None:
        return UNREADABLE
    said = record.extracted
    name = by_key.get(class_key(said)) or by_key.get(_key(said), OTHER)
    return OTHER if name == true else name  # a name that only looks like the gold one


def _score(name: str, by_sample: Mapping[str, list[float]]) -> ClassScore:
    shares = [fmean(grades) for grades in by_sample.values()]
    ci, _ = metric_interval(shares)
    n = sum(map(len, by_sample.values()))
    correct = round(sum(map(sum, by_sample.values())))
    return ClassScore(name=name, n=n, correct=correct, score=fmean(shares), ci=ci)


def _key(name: str) -> str:
    """A name without case, spaces and punctuation."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def _short(name: str, limit: int = 40) -> str:
    line = " ".join(name.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
