from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.fakes.policies import group, sample
from vlrft.evaluation.evaluate import Evaluation, MetricValue, evaluate
from vlrft.evaluation.result_files import missing_metrics
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Group, Metric, Record, Resize, Sample, Task
from vlrft.schema.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to choose."""


def metrics(records: Sequence[Record], grader: str) -> dict[str, Metric]:
    values = tuple(r.scores["iou"] or 0.0 for r in records)
    return {
        "mean": Metric(values=values, threshold=0.5),
        "worst": Metric(values=values, aggregate=lambda places: min(values[i] for i in places)),
        "empty": Metric(values=()),
    }


TASK = Task(
    name="toy",
    doc="",
    options=NoOptions,
    splits=("test",),
    load=lambda split, options: [],
    rewards={},
    graders={"strict": ("format",)},
    metrics=metrics,
    gold=lambda s: "",
)


def loaded(samples: Sequence[Sample] = (), task: Task = TASK) -> LoadedTask:
    return LoadedTask(task=task, samples=samples, rewards=())


def play(samples: Sequence[Sample]) -> list[Group]:
    rollout = group("x", [0.0]).rollouts[0]
    return [
        Group(sample=s, rollouts=(replace(rollout, sample=s, scores={"iou": float(s.answer)}),))
        for s in samples
    ]


def found() -> Evaluation:
    return evaluate(loaded(), [sample(f"s{v}", v, kind="k") for v in (0.0, 0.25, 0.5, 1.0)], play)


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
        evaluate(loaded(), [], play)


def test_a_score_at_its_threshold_is_correct_whatever_the_rounding() -> None:
    figure = MetricValue.of(Metric(values=(0.1 + 0.2, 0.3 - 1e-6), threshold=0.3))
    assert (figure.correct, figure.n) == (1, 2)
    assert MetricValue.of(Metric(values=(0.3 - 1e-12,), threshold=0.3)).correct == 1


def test_records_that_nothing_is_measured_on_are_an_error() -> None:
    nothing = replace(TASK, metrics=lambda records, grader: {"empty": Metric(values=())})
    with pytest.raises(DataError, match="toy: nothing to measure on 2 records"):
        evaluate(loaded(task=nothing), [sample("a", 0.0), sample("b", 0.0)], play)


def test_a_player_that_loses_a_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        evaluate(loaded(), [sample("a", 0.0), sample("b", 0.0)], lambda samples: play(samples)[:1])


def test_a_truncated_answer_is_recorded_as_such() -> None:
    asked = sample("a", 1.0)
    (played,) = play([asked])
    (rollout,) = played.rollouts
    (row,) = rollout.rows
    cut_off = replace(row, pieces=(replace(row.pieces[0], finish="length"),))
    found = evaluate(
        loaded(),
        [asked],
        lambda s: [replace(played, rollouts=(replace(rollout, rows=(cut_off,)),))],
    )
    assert found.records[0].truncated
    assert not evaluate(loaded(), [asked], play).records[0].truncated


def partly(completion: str, sample: Sample) -> float | None:
    return None if sample.tags["kind"] == "other" else 1.0


PUBLISHED = replace(TASK, graders={"strict": ("format",), "official": (f"{__name__}:partly",)})


def test_a_grader_that_applies_to_no_sample_has_no_figures() -> None:
    own = [sample("a", 0.5, kind="other")]
    found = evaluate(loaded(task=PUBLISHED), own, play)
    assert list(found.graded) == ["strict"]
    assert set(found.records[0].grades) == {"strict"}
    assert missing_metrics(PUBLISHED, found) == [
        f"the official grader ({__name__}:partly) applies to none of these samples: no figures by it"
    ]
    both = evaluate(loaded(task=PUBLISHED), [sample("b", 0.5, kind="own")], play)
    assert list(both.graded) == ["strict", "official"]
    assert missing_metrics(PUBLISHED, both) == []


def test_a_grader_that_applies_to_some_samples_only_is_an_error() -> None:
    mixed = [sample("a", 0.5, kind="own"), sample("b", 0.5, kind="other")]
    with pytest.raises(DataError, match="sample b: no reward of the official grader applies"):
        evaluate(loaded(task=PUBLISHED), mixed, play)


def test_a_strict_grader_that_does_not_apply_is_an_error() -> None:
    task = replace(TASK, graders={"strict": (f"{__name__}:partly",)})
    with pytest.raises(DataError, match="sample b: no reward of the strict grader applies"):
        evaluate(loaded(task=task), [sample("b", 0.5, kind="other")], play)


def test_records_are_completed_with_their_samples_before_they_are_measured() -> None:
    met: list[list[str]] = []

    def complete(samples: Sequence[Sample], records: Sequence[Record]) -> Sequence[Record]:
        met.append([s.id for s in samples])
        return [replace(r, scores={"iou": 0.25}) for r in records]

    own = [sample(f"s{k}", 1.0, kind="k") for k in range(3)]
    found = evaluate(replace(loaded(), complete=complete), own, play)
    assert met == [["s0", "s1", "s2"]]
    assert [r.scores for r in found.records] == [{"iou": 0.25}] * 3
    assert found.scores["mean"].score == 0.25


OWN = Resize(min_pixels=3136, max_pixels=401408)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            replace(OWN, max_pixels=1003520),
            "resizes to 3136 to 1003520 pixels, in multiples of 28 a side;",
        ),
        (replace(OWN, factor=32), "resizes to 3136 to 401408 pixels, in multiples of 32 a side;"),
        (None, "resizes to sizes of another kind;"),
    ],
)
def test_answers_in_pixels_of_another_processor_are_refused(
    policy: Resize | None, told: str
) -> None:
    task = replace(loaded(), resize=OWN)
    task.refuse_other_resize(OWN)
    loaded().refuse_other_resize(policy)  # it assumes nothing
    with pytest.raises(ConfigError, match=told) as caught:
        task.refuse_other_resize(policy)
    assert "\n" not in str(caught.value)
