from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest

from vlrft.evaluation.evaluate import MetricValue
from vlrft.grading.metrics import (
    accuracy,
    accuracy_by_tag,
    accuracy_metrics,
    macro_accuracy,
    pass_at_k,
    share_above,
)
from vlrft.schema import DataError, Metric, Record


def record(name: str, grade: float, **tags: str) -> Record:
    return Record(id=name, output="", grades={"strict": grade, "official": 1 - grade}, tags=tags)


MANY = [record(n, g) for n, grades in (("a", (1, 0, 0, 1)), ("b", (0, 0, 0, 0))) for g in grades]


def test_one_answer_a_sample_is_plain_accuracy_by_each_grader() -> None:
    records = [record("a", 1.0), record("b", 0.0), record("c", 1.0)]
    assert accuracy(records, "strict").values == (1.0, 0.0, 1.0)
    assert accuracy(records, "official").values == (0.0, 1.0, 0.0)
    assert set(accuracy_metrics(records, "strict")) == {"accuracy"}


def test_several_answers_are_averaged_by_sample() -> None:
    metric = accuracy(MANY, "strict")
    assert (metric.values, metric.trials) == ((0.5, 0.0), 4)
    assert list(accuracy_metrics(MANY, "strict")) == ["avg@4", "pass@2", "pass@4"]


def test_pass_at_k_is_the_share_of_draws_with_a_right_answer() -> None:
    grades = [1.0, 0.0, 0.0, 1.0, 0.0]
    records = [record("a", g) for g in grades]
    for k in range(1, 6):
        by_hand = fmean(float(any(draw)) for draw in combinations(grades, k))
        assert pass_at_k(records, "strict", k).values == pytest.approx((by_hand,))


def test_pass_at_k_of_too_few_answers_names_the_sample() -> None:
    with pytest.raises(DataError, match="pass@3: sample b has only 2 answers"):
        pass_at_k([record(n, 1.0) for n in "aaabb"], "strict", 3)


def test_samples_with_unequal_numbers_of_answers_are_an_error() -> None:
    with pytest.raises(DataError, match="sample b has 1 answers and a has 2"):
        accuracy([record(n, 1.0) for n in "aab"], "strict")


def counts(metric: Metric) -> tuple[int, int]:
    value = MetricValue.of(metric)
    return value.correct, value.n


def test_of_several_answers_those_are_correct_whose_own_grade_reaches_the_threshold() -> None:
    ious = [record(f"s{k}", 0.4, kind="a") for k in range(5) for _ in range(4)]
    assert counts(accuracy(ious, "strict", 0.5)) == (0, 20)
    assert counts(accuracy(ious, "strict", 0.4)) == (20, 20)
    assert counts(share_above(ious, "strict", 0.5)) == (0, 20)
    assert counts(macro_accuracy(ious, "strict", "kind")) == (0, 20)
    mixed = [record("a", 0.5), record("a", 0.9), record("b", 0.1), record("b", 0.4)]
    assert counts(accuracy(mixed, "strict", 0.5)) == (2, 4)
    assert counts(accuracy(MANY, "strict")) == (2, 8)


def test_share_above_counts_grades_that_reach_the_threshold_rounding_aside() -> None:
    records = [record("a", 0.5), record("b", 0.1 + 0.2), record("c", 0.3)]
    assert share_above(records, "strict", 0.5).values == (1.0, 0.0, 0.0)
    assert share_above(records, "strict", 0.1 + 0.2).values == (1.0, 1.0, 1.0)


def test_each_value_of_a_tag_has_a_metric_in_order_of_appearance() -> None:
    records = [record("a", 1.0, kind="z"), record("b", 0.0, kind="y"), record("c", 0.0, kind="z")]
    metrics = accuracy_by_tag(records, "strict", "kind")
    assert {name: m.values for name, m in metrics.items()} == {"z": (1.0, 0.0), "y": (0.0,)}
    assert list(metrics) == ["z", "y"]


def test_named_values_of_a_tag_come_first_each_with_its_threshold() -> None:
    records = [record("a", 0.6, kind="z"), record("b", 1.0, kind="y"), record("c", 0.0, kind="x")]
    order = ("y", "w", "z")
    metrics = accuracy_by_tag(records, "strict", "kind", order=order, thresholds={"z": 0.5})
    assert [(name, m.threshold) for name, m in metrics.items()] == [("y", 1), ("z", 0.5), ("x", 1)]
