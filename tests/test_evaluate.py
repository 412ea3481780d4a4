from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.fakes import group, sample
from vlrft.evaluate import Evaluation, evaluate
from vlrft.intervals import bootstrap, paired
from vlrft.schema import DataError, Measure, Record, Rollout, Sample, Task


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to choose."""


def measures(records: Sequence[Record]) -> dict[str, Measure]:
    values = tuple(r.scores["iou"] or 0.0 for r in records)
    return {
        "mean": Measure(values=values, threshold=0.5),
        "worst": Measure(values=values, aggregate=min),
        "empty": Measure(values=()),
    }


TASK = Task(
    name="toy",
    doc="",
    options=NoOptions,
    splits=("test",),
    load=lambda split, options: [],
    rewards={},
    measures=measures,
    gold=lambda s: "",
)


def play(samples: Sequence[Sample]) -> list[Rollout]:
    rollout = group("x", [0.0]).rollouts[0]
    return [replace(rollout, sample=s, scores={"iou": float(s.answer)}) for s in samples]


def found() -> Evaluation:
    return evaluate(TASK, [sample(f"s{v}", v, kind="k") for v in (0.0, 0.25, 0.5, 1.0)], play)


def test_figures_by_hand() -> None:
    scores = found().scores
    assert set(scores) == {"mean", "worst"}
    assert (scores["mean"].correct, scores["mean"].n, scores["mean"].score) == (2, 4, 0.4375)
    assert (scores["worst"].correct, scores["worst"].score) == (1, 0.0)
    low, high = scores["mean"].ci
    assert 0.0 <= low < 0.4375 < high <= 1.0
    assert found().mean == pytest.approx(0.4375 / 2)
    assert set(found().to_json()["mean"]) == {"correct", "n", "score", "ci"}


def test_every_record_is_kept_in_order() -> None:
    records = found().records
    assert [r.id for r in records] == ["s0.0", "s0.25", "s0.5", "s1.0"]
    assert records[2].tags == {"kind": "k"}


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(DataError, match="toy: no samples"):
        evaluate(TASK, [], play)


def test_the_bootstrap_interval_is_the_normal_one_for_many_records() -> None:
    values = ([1.0] * 600) + ([0.0] * 400)
    low, high = bootstrap(values)
    error = 1.96 * (0.6 * 0.4 / 1000) ** 0.5
    assert low == pytest.approx(0.6 - error, abs=0.004)
    assert high == pytest.approx(0.6 + error, abs=0.004)
    assert bootstrap(values) == (low, high)
    assert bootstrap([0.3] * 5) == pytest.approx((0.3, 0.3))


def test_an_aggregate_other_than_the_mean_is_resampled_too() -> None:
    values = np.random.default_rng(0).normal(size=200).tolist()
    low, high = bootstrap(values, max)
    assert low < high == max(values)


def test_pairs_make_the_interval_of_a_difference_narrower() -> None:
    before = [float(i % 2) for i in range(400)]
    after = [1.0 if i % 10 == 0 else b for i, b in enumerate(before)]
    gain, (low, high) = paired(before, after)
    assert gain == pytest.approx(0.1)
    assert 0.05 < low < 0.1 < high < 0.15
