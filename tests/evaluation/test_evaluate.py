"""Evaluation: records, metrics, graders and their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Semaphore

import pytest
from PIL import Image

from vlrft.config import EvalConfig, RolloutConfig
from vlrft.evaluation.evaluate import (
    Evaluation,
    MetricValue,
    chunk_size,
    evaluate,
    grade_samples,
)
from vlrft.evaluation.result_files import missing_metrics
from vlrft.rollout.task import LoadedTask
from vlrft.schema import DataError, Group, Metric, Record, Resize, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.selection.prefetch import prefetching
from vlrft.testing.small_policies import group, sample


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to choose."""


def metrics(records: Sequence[Record], grader: str) -> dict[str, Metric]:
    values = tuple(r.scores["iou"] or 0.0 for r in records)
    return {
        "mean": Metric(values=values, threshold=0.5),
        "worst": Metric(values=values, aggregate=lambda indices: min(values[i] for i in indices)),
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


def evaluation() -> Evaluation:
    return evaluate(loaded(), [sample(f"s{v}", v, kind="k") for v in (0.0, 0.25, 0.5, 1.0)], play)


def test_metrics_by_hand() -> None:
    scores = evaluation().scores
    assert set(scores) == {"mean", "worst"}
    assert (scores["mean"].correct, scores["mean"].n, scores["mean"].score) == (2, 4, 0.4375)
    assert (scores["worst"].correct, scores["worst"].score) == (1, 0.0)
    assert scores["worst"].ci[0] == 0.0
    low, high = scores["mean"].ci
    assert 0.0 <= low < 0.4375 < high <= 1.0
    assert evaluation().mean == pytest.approx(0.4375 / 2)
    assert set(evaluation().to_json()["mean"]) == {
        "correct",
        "n",
        "score",
        "ci",
        "ci_method",
        "threshold",
    }


def test_checkpoints_cannot_be_compared_by_metrics_of_which_none_is_a_share() -> None:
    pixels = Metric(values=(3.0, 5.0), share=False)
    task = replace(TASK, metrics=lambda records, grader: {"pixels": pixels})
    result = evaluate(loaded(task=task), [sample("a", 0.0), sample("b", 0.0)], play)
    assert result.scores["pixels"].score == 4.0
    with pytest.raises(DataError, match=r"metrics \(pixels\) have no share"):
        _ = result.mean


def test_every_record_is_kept_in_order() -> None:
    records = evaluation().records
    assert [r.id for r in records] == ["s0.0", "s0.25", "s0.5", "s1.0"]
    assert records[2].tags == {"kind": "k"}


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(DataError, match="toy: no samples"):
        evaluate(loaded(), [], play)


def test_a_score_at_its_threshold_is_correct_whatever_the_rounding() -> None:
    value = MetricValue.of(Metric(values=(0.1 + 0.2, 0.3 - 1e-6), threshold=0.3))
    assert (value.correct, value.n) == (1, 2)
    assert MetricValue.of(Metric(values=(0.3 - 1e-12,), threshold=0.3)).correct == 1


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_finite_number_names_its_metric(score: float) -> None:
    f1 = Metric(values=(1.0, 0.0), aggregate=lambda places: score)
    task = replace(TASK, metrics=lambda records, grader: {"F1": f1})
    with pytest.raises(DataError, match=f"task toy: metric 'F1': its score is {score}, not a"):
        evaluate(loaded(task=task), [sample("a", 0.0), sample("b", 0.0)], play)


def test_records_without_a_metric_are_an_error() -> None:
    nothing = replace(TASK, metrics=lambda records, grader: {"empty": Metric(values=())})
    with pytest.raises(DataError, match="toy: nothing to measure on 2 records"):
        evaluate(loaded(task=nothing), [sample("a", 0.0), sample("b", 0.0)], play)


def test_a_missing_group_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        evaluate(loaded(), [sample("a", 0.0), sample("b", 0.0)], lambda samples: play(samples)[:1])


def test_a_truncated_answer_is_recorded_as_such() -> None:
    question = sample("a", 1.0)
    (played,) = play([question])
    (rollout,) = played.rollouts
    (row,) = rollout.rows
    cut_off = replace(row, pieces=(replace(row.pieces[0], finish="length"),))
    truncated = evaluate(
        loaded(),
        [question],
        lambda s: [replace(played, rollouts=(replace(rollout, rows=(cut_off,)),))],
    )
    assert truncated.records[0].truncated
    assert not evaluate(loaded(), [question], play).records[0].truncated


def partly(completion: str, sample: Sample) -> float | None:
    return None if sample.tags["kind"] == "other" else 1.0


PUBLISHED = replace(TASK, graders={"strict": ("format",), "official": (f"{__name__}:partly",)})


def test_a_grader_that_applies_to_no_sample_has_no_metrics() -> None:
    strict = evaluate(loaded(task=PUBLISHED), [sample("a", 0.5, kind="other")], play)
    assert list(strict.graded) == ["strict"]
    assert set(strict.records[0].grades) == {"strict"}
    assert missing_metrics(PUBLISHED, strict) == [
        f"the official grader ({__name__}:partly) applies to none of these samples and has no metrics"
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


def test_records_are_completed_with_their_samples_before_metrics_are_computed() -> None:
    completed: list[list[str]] = []

    def complete(samples: Sequence[Sample], records: Sequence[Record]) -> Sequence[Record]:
        completed.append([s.id for s in samples])
        return [replace(r, scores={"iou": 0.25}) for r in records]

    samples = [sample(f"s{k}", 1.0, kind="k") for k in range(3)]
    result = evaluate(replace(loaded(), complete=complete), samples, play)
    assert completed == [["s0", "s1", "s2"]]
    assert [r.scores for r in result.records] == [{"iou": 0.25}] * 3
    assert result.scores["mean"].score == 0.25


RESIZE = Resize(min_pixels=3136, max_pixels=401408)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            replace(RESIZE, max_pixels=1003520),
            "resizes to 3136 to 1003520 pixels, in multiples of 28 a side;",
        ),
        (
            replace(RESIZE, factor=32),
            "resizes to 3136 to 401408 pixels, in multiples of 32 a side;",
        ),
        (None, "resizes to sizes of another kind;"),
    ],
)
def test_answers_in_pixels_of_another_processor_are_refused(
    policy: Resize | None, message: str
) -> None:
    task = replace(loaded(), resize=RESIZE)
    task.refuse_other_resize(RESIZE)
    loaded().refuse_other_resize(policy)  # answers that are not in pixels
    with pytest.raises(ConfigError, match=message) as caught:
        task.refuse_other_resize(policy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "a value of its metric 'mean' is nan, not a finite number"),
        ("1", "a value of its metric 'mean' is a str, not a number"),
    ],
)
def test_a_metric_that_is_no_finite_number_names_the_task(value: object, problem: str) -> None:
    task = replace(TASK, metrics=lambda records, grader: {"mean": Metric(values=(value,))})  # type: ignore[arg-type]
    with pytest.raises(DataError, match=f"task toy: {problem}"):
        evaluate(loaded(task=task), [sample("s", 1.0)], play)


def broken_aggregate(indices: Sequence[int]) -> float:
    raise KeyError("x")


def test_metrics_that_raise_name_the_task_and_the_line() -> None:
    def broken(records: Sequence[Record], grader: str) -> dict[str, Metric]:
        raise SystemExit(2)

    values = Metric(values=(1.0,), aggregate=broken_aggregate)
    for metrics, part in ((broken, "its `metrics`"), (lambda *_: {"m": values}, "the `aggregate`")):
        with pytest.raises(
            DataError, match=rf"task toy: {part} .*raised .*\(test_evaluate.py:\d+\)"
        ):
            evaluate(loaded(task=replace(TASK, metrics=metrics)), [sample("s", 1.0)], play)


@pytest.mark.parametrize(("rows", "answers", "size"), [(512, 1, 512), (512, 8, 64), (4, 8, 1)])
def test_as_many_samples_are_played_as_the_engine_samples_at_once(
    rows: int, answers: int, size: int
) -> None:
    decoding = EvalConfig(answers=answers, temperature=1.0)
    assert chunk_size(RolloutConfig(max_rows=rows), decoding) == size


def test_images_of_the_next_chunk_are_processed_while_one_is_played() -> None:
    picture = Image.new("RGB", (2, 2))
    samples = [replace(sample(f"s{k}", 1.0), images=(picture,)) for k in range(7)]
    processed: list[int] = []
    events: list[tuple[int, int]] = []
    done, waited = Semaphore(0), list[int]()

    def process(sample: Sample) -> object:
        processed.append(1)
        done.release()
        return sample

    def play_counted(chunk: Sequence[Sample]) -> list[Group]:
        expected = min(7, 3 * (len(events) + 2))
        assert all(done.acquire(timeout=20) for _ in range(expected - len(waited)))
        waited.extend(range(len(waited), expected))
        events.append((len(chunk), len(processed)))
        return list(play(chunk))

    with prefetching(samples, process, 2) as prepared:
        ahead = list(grade_samples(loaded(), prepared, play_counted, 3))
    assert events == [(3, 6), (3, 7), (1, 7)]
    with prefetching(samples, process, 0) as same:
        assert same is samples
    assert ahead == list(grade_samples(loaded(), samples, play, 3))
