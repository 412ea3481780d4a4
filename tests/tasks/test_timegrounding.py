"""Temporal grounding: both published forms, prompts word for word, videos of raw and of prepared data, metrics by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from vlrft.tasks.timegrounding.options import Options

from tests.fixtures.makers.timegrounding import LENGTH, ORDER, make_json, make_text
from tests.tasks.loaded import assert_gold_earns_all, load_samples, prepare
from vlrft.data import Dataset
from vlrft.plugins.find import find_task
from vlrft.schema import VIDEO, DataError, Record, Sample
from vlrft.scoring.graders import Graders

pytest.importorskip("av")

FEW: dict[str, Any] = {"max_frames": 4, "min_pixels": 784, "total_pixels": 2 * 784}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("charades")
    for make in (make_text, make_json):
        (root / make.__name__).mkdir()
        make(root / make.__name__)
    return root


def seen(samples: Any) -> list[tuple[Any, ...]]:
    """The parts of each sample that a policy and a grader read, by its id."""
    return sorted(
        (s.id, s.messages, tuple(s.answer), s.tags["answer"], s.videos[0].pictures.tobytes())
        for s in samples
    )


def test_the_lines_of_charades_sta(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = load_samples("timegrounding", "test", data / "make_text", **FEW)
    assert [s.id for s in samples] == list(ORDER)
    first = samples[0]
    assert (first.answer, first.info["duration"]) == ([24.3, 30.4], 30.96)
    (video,) = first.videos
    assert list(video.indices) == [0, 10, 20, 30] == list(video.seconds)
    assert (video.size, video.source_seconds) == ((28, 28), LENGTH)
    assert "1 row left out: end not after start" in capsys.readouterr().err
    assert_gold_earns_all("timegrounding", samples)


def test_the_json_of_time_r1_gives_the_same_questions(data: Path) -> None:
    videos = str(data / "make_text" / "Charades_v1")
    of_json = load_samples("timegrounding", "test", data / "make_json", videos=videos, **FEW)
    of_text = load_samples("timegrounding", "test", data / "make_text", **FEW)
    assert seen(of_json) == seen(of_text)
    assert of_json[0].info == of_text[0].info


def test_prepared_data_have_their_videos(data: Path, tmp_path: Path) -> None:
    left_out = prepare("timegrounding", data / "make_text", tmp_path / "prepared")
    assert left_out["test"] == {"AMT7R/1": "end not after start"}
    copies = sorted((tmp_path / "prepared" / "videos").iterdir())
    assert [path.suffix for path in copies] == [".mp4"]  # the three videos are the same
    prepared = load_samples("timegrounding", "test", tmp_path / "prepared", **FEW)
    assert seen(prepared) == seen(load_samples("timegrounding", "test", data / "make_text", **FEW))


def test_prompts_word_for_word(data: Path) -> None:
    def content(split: str, prompt: str) -> tuple[Any, ...]:
        samples = load_samples("timegrounding", split, data / "make_text", prompt=prompt, **FEW)
        return tuple(samples[0].messages[0].content)

    assert content("test", "clean") == (
        VIDEO,
        'When does this happen in the video: "person turn a light on"? Think first, between <think> and </think>. Then '
        "give the start and the end in seconds between <answer> and </answer>, as in <answer>12.5 to 17.8</answer>.",
    )
    released = (
        'To accurately pinpoint the event "{}" in the video, determine the precise time period of the event.\n\n'
        "Output your thought process within the <think> </think> tags, including analysis with either specific timestamps "
        "(xx.xx) or time ranges (xx.xx to xx.xx) in <timestep> </timestep> tags.\n\n"
        'Then, provide the start and end times (in seconds, precise to two decimal places) in the format "start time to end '
        'time" within the <answer> </answer> tags. For example: "12.54 to 17.83".'
    )
    assert content("test", "released") == (released.format("person turn a light on."), VIDEO)
    assert content("train", "released") == (released.format("the person puts down the bag"), VIDEO)


def test_missing_and_broken_videos_are_left_out_by_name(tmp_path: Path) -> None:
    make_text(tmp_path)
    (tmp_path / "Charades_v1" / "AMT7R.mp4").unlink()
    (tmp_path / "Charades_v1" / "3MSZA.mp4").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(
        DataError, match=r"1 of 4 rows .*video missing: no 'AMT7R' among .*options\.videos"
    ):
        load_samples("timegrounding", "test", tmp_path)
    load = find_task("timegrounding").load
    assert isinstance(load, Dataset)
    samples = load("test", Options(data=str(tmp_path)), on_bad="skip")
    with pytest.raises(DataError, match=r"^sample 3MSZA/0: video .*3MSZA\.mp4 .* it is PNG$"):
        samples[0]
    train = prepare("timegrounding", tmp_path, tmp_path / "prepared", "--split", "train")["train"]
    assert train == {}


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("3MSZA 24.3##x", "expected VIDEO START END##SENTENCE"),
        ("3MSZA 24.3 30.4 x", "expected VIDEO START END##SENTENCE"),
        ("3MSZA 24.3 late##x", "could not convert string to float"),
    ],
)
def test_a_line_that_is_none_is_a_defect(tmp_path: Path, line: str, detail: str) -> None:
    make_text(tmp_path)
    (tmp_path / "charades_sta_val.txt").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"1 of 1 rows .*incomplete row: .*{detail}"):
        load_samples("timegrounding", "val", tmp_path)


def test_metrics_and_the_official_grader() -> None:
    task = find_task("timegrounding")
    graders, sample = Graders.of(task), Sample(
        id="a", messages=(), answer=[10.0, 20.0], tags={"answer": "segment"}
    )  # fmt: skip
    outputs = {
        "<answer>10 to 20</answer>": (1.0, 1.0),
        "<answer>10 to 15</answer>": (0.5, 0.5),
        "It is from 10 to 15, or <answer>10, 20</answer>": (1.0, 0.5),
        "12 to 20": (0.0, 0.8),
    }
    grades = [
        (graders.grade("strict", o, sample), graders.grade("official", o, sample)) for o in outputs
    ]
    assert grades == list(outputs.values())
    records = [
        Record(id=str(k), output="", grades={"strict": strict})
        for k, (strict, _) in enumerate(grades)
    ]
    assert task.metrics is not None
    metrics = task.metrics(records, "strict")
    assert {name: sum(m.values) / 4 for name, m in metrics.items()} == {
        "mIoU": 0.625,
        "R1@0.3": 0.75,
        "R1@0.5": 0.75,
        "R1@0.7": 0.5,
    }


def test_frames_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="min_frames 10, more than max_frames 8"):
        TypeAdapter(Options).validate_python({"min_frames": 10, "max_frames": 8})


def test_the_options_set_the_size_of_the_frames(data: Path) -> None:
    larger = {**FEW, "min_pixels": 4 * 784, "total_pixels": 8 * 784}
    samples = load_samples("timegrounding", "test", data / "make_text", **larger)
    assert samples[0].videos[0].size == (56, 56)
