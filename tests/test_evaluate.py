from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.fakes import group, sample
from vlrft.binding import BoundTask
from vlrft.evaluate import Evaluation, Figure, evaluate
from vlrft.schema import DataError, Group, Measure, Record, Sample, Task


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to choose."""


def measures(records: Sequence[Record], grader: str) -> dict[str, Measure]:
    values = tuple(r.scores["iou"] or 0.0 for r in records)
    return {
        "mean": Measure(values=values, threshold=0.5),
        "worst": Measure(values=values, aggregate=lambda places: min(values[i] for i in places)),
        "empty": Measure(values=()),
    }


TASK = Task(
    name="toy",
    doc="",
    options=NoOptions,
    splits=("test",),
    load=lambda split, options: [],
    rewards={},
    graders={"strict": ("format",)},
    measures=measures,
    gold=lambda s: "",
)


def bound(samples: Sequence[Sample] = (), task: Task = TASK) -> BoundTask:
    return BoundTask(task=task, samples=samples, rewards=())


def play(samples: Sequence[Sample]) -> list[Group]:
    rollout = group("x", [0.0]).rollouts[0]
    return [
        Group(sample=s, rollouts=(replace(rollout, sample=s, scores={"iou": float(s.answer)}),))
        for s in samples
    ]


def found() -> Evaluation:
    return evaluate(bound(), [sample(f"s{v}", v, kind="k") for v in (0.0, 0.25, 0.5, 1.0)], play)


def test_figures_by_hand() -> None:
    scores = found().scores
    assert set(scores) == {"mean", "worst"}
    assert (scores["mean"].correct, scores["mean"].n, scores["mean"].score) == (2, 4, 0.4375)
    assert (scores["worst"].correct, scores["worst"].score) == (1, 0.0)
    assert scores["worst"].ci[0] == 0.0
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
        evaluate(bound(), [], play)


def test_a_score_at_its_threshold_is_correct_whatever_the_rounding() -> None:
    figure = Figure.of(Measure(values=(0.1 + 0.2, 0.3 - 1e-6), threshold=0.3))
    assert (figure.correct, figure.n) == (1, 2)
    assert Figure.of(Measure(values=(0.3 - 1e-12,), threshold=0.3)).correct == 1


def test_records_that_nothing_is_measured_on_are_an_error() -> None:
    nothing = replace(TASK, measures=lambda records, grader: {"empty": Measure(values=())})
    with pytest.raises(DataError, match="toy: nothing to measure on 2 records"):
        evaluate(bound(task=nothing), [sample("a", 0.0), sample("b", 0.0)], play)


def test_a_player_that_loses_a_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        evaluate(bound(), [sample("a", 0.0), sample("b", 0.0)], lambda samples: play(samples)[:1])


def test_a_truncated_answer_is_recorded_as_such() -> None:
    asked = sample("a", 1.0)
    (played,) = play([asked])
    (rollout,) = played.rollouts
    (row,) = rollout.sequences
    cut_off = replace(row, pieces=(replace(row.pieces[0], finish="length"),))
    found = evaluate(
        bound(),
        [asked],
        lambda s: [replace(played, rollouts=(replace(rollout, sequences=(cut_off,)),))],
    )
    assert found.records[0].truncated
    assert not evaluate(bound(), [asked], play).records[0].truncated
