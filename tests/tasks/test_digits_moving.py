"""The pack of moving digits: gold answers against the frames, splits, options and metrics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from vlrft.tasks.digits_moving import task
from vlrft.tasks.digits_moving.options import SUBTASKS, Options

from tests.tasks.loaded import assert_gold_earns_all
from vlrft.schema import VIDEO, Record, Sample

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "crowded": {"frames": 8, "passes": (4, 4), "max_count": 4, "digits": (1, 3, 5, 7)},
    "fast": {"fps": 200.0},  # a step of a hundredth of a second, the shortest
    "odd": {"frames": 9, "step": 1, "passes": (1, 3), "fps": 3.0, "canvas": 84, "sizes": (20, 84)},
}
settings = pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)


def videos(split: str = "train", **options: Any) -> Sequence[Sample]:
    return task.load(split, Options(**options))


def passing(sample: Sample) -> list[list[int]]:
    """Digit, first frame and the one after the last, of each pass."""
    passes: list[list[int]] = sample.info["passes"]
    return passes


@settings
def test_gold_completions_earn_full_marks(options: dict[str, Any]) -> None:
    assert_gold_earns_all("digits_moving", videos(**options)[:30])


@settings
def test_frames_show_a_digit_exactly_where_one_passes(options: dict[str, Any]) -> None:
    for sample in videos(**options)[:30]:
        (video,) = sample.videos
        shown = [bool(picture.any()) for picture in video.pictures]
        expected = [False] * len(video)
        for _, start, end in passing(sample):
            assert not any(expected[start:end])  # one at a time
            expected[start:end] = [True] * (end - start)
        assert shown == expected
        assert sample.messages[0].content[0] is VIDEO
        assert list(video.seconds) == [k / video.source_fps for k in video.indices]


@settings
def test_gold_answers_are_what_passes(options: dict[str, Any]) -> None:
    fps = Options(**options).fps
    kinds = set()
    for sample in videos(**options)[:60]:
        passes, kind = passing(sample), sample.tags["kind"]
        asked = [int(c) for c in sample.messages[0].content[1].split() if c.rstrip("?").isdigit()]  # type: ignore[union-attr]
        kinds.add(kind)
        if kind == "first":
            assert sample.answer == str(min(passes, key=lambda p: p[1])[0])
        if kind == "count":
            assert sample.answer == sum(digit == asked[0] for digit, _, _ in passes)
        if kind == "when":
            assert len({digit for digit, _, _ in passes}) == len(passes)
            of_target = [
                (round(s / fps, 2), round(e / fps, 2))
                for digit, s, e in passes
                if digit == asked[0]
            ]
            assert [sample.answer] == of_target
    assert kinds == set(SUBTASKS)


def test_a_digit_moves_from_edge_to_edge() -> None:
    sample = videos(subtasks=("first",), passes=(1, 1), max_count=1, step=12)[0]
    (video,) = sample.videos
    middles = []
    for picture in video.pictures:
        rows, columns = np.nonzero(picture[..., 0])
        middles.append((rows.mean(), columns.mean()))
    way = np.abs(np.array(middles[-1]) - np.array(middles[0]))
    assert max(way) > 2 > min(way)


def test_videos_depend_on_split_index_and_options_only() -> None:
    one, other = videos(), videos()
    backwards = [other[k] for k in reversed(range(6))][::-1]
    for a, b in zip(one[:6], backwards, strict=True):
        assert (a.id, a.messages, a.answer, a.tags) == (b.id, b.messages, b.answer, b.tags)
        assert np.array_equal(a.videos[0].pictures, b.videos[0].pictures)
    assert not np.array_equal(one[0].videos[0].pictures, videos("test")[0].videos[0].pictures)


def test_all_places_of_a_pass_are_drawn() -> None:
    samples = videos(subtasks=("when",), frames=6, passes=(1, 1), max_count=1)
    places = {tuple(passing(sample)[0][1:]) for sample in samples[:60]}
    assert places == {(a, b) for a, b in itertools.combinations((0, 2, 4, 6), 2)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subtasks": []}, "use some of first, count, when"),
        ({"sizes": [40, 60]}, "both fit canvas 56"),
        ({"digits": [3]}, "two or more different digits"),
        ({"passes": [3, 2]}, "the smaller number comes first"),
        ({"passes": [2, 7]}, "12 frames have 6 steps of 2"),
        ({"digits": [1, 2], "passes": [3, 3]}, "up to 3 of different digits, of which there are 2"),
        ({"max_count": 3}, "max_count 3: more than passes, up to 2"),
        ({"frames": 1}, "frames"),
        ({"fps": 500}, "fps 500: a pass of 2 frames .* use fps up to 200, or a larger step"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(Options).validate_python(options)


def test_metrics_of_each_subtask() -> None:
    records = [
        Record(id="a", output="", grades={"strict": 0.75}, tags={"kind": "when"}),
        Record(id="b", output="", grades={"strict": 0.25}, tags={"kind": "when"}),
        Record(id="c", output="", grades={"strict": 1.0}, tags={"kind": "first"}),
    ]
    assert task.metrics is not None
    metrics = task.metrics(records, "strict")
    assert {name: (m.values, m.threshold) for name, m in metrics.items()} == {
        "first": ((1.0,), 1.0),
        "when": ((0.75, 0.25), 0.5),
    }
