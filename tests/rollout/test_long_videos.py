"""The tokens of videos are counted before the first step, from the headers and the packets of their files."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.conftest import Tiny
from tests.rollout.test_play import TASK
from vlrft.cli.prompt_limit import PromptLimit
from vlrft.data import Clip, Row, RowSamples
from vlrft.data.clips import ClipFinder, ClipTimes
from vlrft.data.row import Picture
from vlrft.data.source import Folder
from vlrft.rollout.bad_rows import check_pictures, check_prompts
from vlrft.rollout.task import LoadedTask
from vlrft.schema import IMAGE, VIDEO, DataError, Message, Sample, Slot
from vlrft.testing.small_policies import noise_image
from vlrft.testing.small_videos import shades, write_video
from vlrft.vision.video import decode
from vlrft.vision.video.frames import FrameRule

pytest.importorskip("av")

RULE = FrameRule(fps=4, max_frames=12, min_pixels=784, max_pixels=3136)


@dataclass(frozen=True)
class Options:
    data: str | None = None


def make_sample(row: Row, options: Options) -> Sample:
    places: list[str | Slot] = [*[IMAGE] * len(row.pictures), *[VIDEO] * len(row.videos)]
    return Sample(id=row.id, messages=(Message(role="user", content=(*places, row.question)),))


def picture() -> Picture:
    content = io.BytesIO()
    noise_image(56, 84).save(content, "PNG")
    return Picture(name="a.png", read=content.getvalue)


def loaded(*rows: Row, **settings: Any) -> LoadedTask:
    samples = RowSamples(rows, make_sample, Options(), frames=RULE)
    return LoadedTask(task=replace(TASK, env=None), samples=samples, rewards=(), **settings)


Make = Callable[..., Row]


@pytest.fixture(scope="module")
def make_row(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A row with videos of so many frames, 8 a second."""
    folder = tmp_path_factory.mktemp("videos")

    def make(name: str, *frames: int, pictures: int = 0) -> Row:
        clips = []
        for count in frames:
            path = folder / f"{count}.mp4"
            if not path.exists():
                write_video(path, shades(count, 70, 50))
            clips.append(Clip(name=path.name, open=partial(open_file, path)))
        images = (picture(),) * pictures
        return Row(id=name, question="When?", answer="", videos=tuple(clips), pictures=images)

    return make


def open_file(path: Path) -> BinaryIO:
    return path.open("rb")


def refuse(*arguments: object) -> None:
    raise AssertionError("a frame was decoded")


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl", "glm4v"])
def test_a_prompt_has_as_many_tokens_as_were_counted(
    tiny: Tiny, make_row: Make, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pictures beside the videos, and of one that has fewer frames than are wanted."""
    chat = tiny(family).chat
    task = loaded(make_row("train/0", 9, 30, pictures=1))
    shown = task.samples[0]
    prompt = chat.render(shown.messages, shown.images, shown.videos)
    of_videos = sum(image.tokens for image in prompt.images if image.video)
    monkeypatch.setattr(decode, "_frames", refuse)
    assert check_prompts(task, chat, len(prompt.ids)) is task
    said = rf"train/0 with {len(prompt.ids)} tokens \(.*{of_videos} of videos\)"
    with pytest.raises(DataError, match=said):
        check_prompts(task, chat, len(prompt.ids) - 1)


def test_prompts_with_long_videos_are_left_out_where_they_are_to_be_skipped(
    tiny: Tiny, make_row: Make
) -> None:
    rows = [make_row("short", 8), make_row("long", 30, 30), make_row("none"), damaged(make_row)]
    chat, task = tiny("qwen2_vl").chat, loaded(*rows, on_bad="skip")
    short = task.samples[0]
    kept = check_prompts(task, chat, len(chat.render(short.messages, (), short.videos).ids))
    assert isinstance(kept.samples, RowSamples)
    assert [s.id for s in kept.samples.without_images()] == ["short", "none"]
    assert [(d.id, d.reason) for d in kept.samples.left_out] == [
        ("long", "prompt too long"),
        ("damaged", "video missing or unreadable"),
    ]


def damaged(make_row: Make) -> Row:
    clip = Clip(name="b.mp4", open=lambda: io.BytesIO(b"no video"))
    return replace(make_row("damaged"), videos=(clip,))


def test_a_video_that_cannot_be_read_is_not_reported_as_a_long_prompt(
    tiny: Tiny, make_row: Make
) -> None:
    """Of the rows that cannot be used those of the first one's kind are counted, and all are listed."""
    chat, task = tiny("qwen2_vl").chat, loaded(damaged(make_row))
    said = r"1 prompt has a video that cannot be read: the first is damaged: video b\.mp4 cannot be read: "
    advice = r".*; vlrft data prepare lists them and leaves them out; task\.on_bad=skip trains"
    with pytest.raises(DataError, match=said + advice) as caught:
        check_prompts(task, chat, 2000)
    assert "longer" not in str(caught.value)
    samples = RowSamples(task.samples.rows, make_sample, Options(), prepared=True)  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"; restore the file, or prepare the data again"):
        check_prompts(replace(task, samples=samples), chat, 2000)
    for rows, said in (
        ([damaged(make_row), make_row("long", 30)], "1 prompt has a video that cannot be read"),
        ([make_row("long", 30), damaged(make_row)], "1 prompt is longer than .*=10"),
    ):
        with pytest.raises(
            DataError, match=rf"{said} \(2 cannot be used\): the first is"
        ) as caught:
            check_prompts(loaded(*rows), chat, 10)
        assert len(caught.value.defects) == 2


def test_a_picture_that_cannot_be_read_is_not_reported_as_a_long_prompt(tiny: Tiny) -> None:
    broken = Picture(name="a.png", read=lambda: b"no picture")
    row = Row(id="train/0", question="When?", answer="", pictures=(broken,))
    with pytest.raises(DataError, match=r"1 prompt has a picture .*: the first is train/0: "):
        check_prompts(loaded(row), tiny("qwen2_vl").chat, 40)


def shared_by_three(make_row: Make, opened: Counter[str], *, whole: bool = True) -> list[Row]:
    """Rows that name one video, found anew for each."""
    clip = (make_row("one", 8) if whole else damaged(make_row)).videos[0]

    def open_clip() -> BinaryIO:
        opened[clip.name] += 1
        return clip.open()

    return [
        replace(
            make_row(f"train/{k}"),
            videos=(Clip(name=clip.name, open=lambda: open_clip(), source="films"),),
        )
        for k in range(3)
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_a_video_that_several_rows_name_is_measured_once(
    tiny: Tiny, make_row: Make, whole: bool
) -> None:
    """Whether it can be read or not, by both checks of a run together and by `vlrft data prepare --model`."""
    opened: Counter[str] = Counter()
    rows, chat = shared_by_three(make_row, opened, whole=whole), tiny("qwen2_vl").chat
    task, times = loaded(*rows, make_row("none"), on_bad="skip"), ClipTimes()
    left = 0 if whole else 3
    assert len(check_pictures(task, times).samples) == 4 - left
    assert len(check_prompts(task, chat, 2000, times=times).samples) == 4 - left
    assert list(opened.values()) == [1]
    assert len(check_pictures(task).samples) == 4 - left
    assert list(opened.values()) == [2]
    assert len(check_prompts(task, chat, 2000).samples) == 4 - left
    assert list(opened.values()) == [3]
    limit = PromptLimit(model="m", max_tokens=2000, chat=chat, frames=RULE)
    problems = [limit.find_problem(row, make_sample(row, Options())) for row in rows]
    assert sum(problem is not None for problem in problems) == left
    assert list(opened.values()) == [4]


def test_videos_of_one_name_are_told_apart_by_their_sources(tmp_path: Path) -> None:
    """And those of a pack that names no source, by what opens them."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.mp4").touch()
    finders = [ClipFinder(Folder(tmp_path / name), "train") for name in ("here", "here", "there")]
    here, again, there = (finder.find("a.mp4").key for finder in finders)
    assert here == again != there
    one, other = (Clip(name="a.mp4", open=lambda: io.BytesIO()) for _ in range(2))
    assert one.key == replace(one).key != other.key


def test_a_policy_that_takes_no_videos_is_named_as_the_reason(tiny: Tiny, make_row: Make) -> None:
    with pytest.raises(DataError, match=r"^a video, but this policy takes text only$"):
        check_prompts(loaded(make_row("train/0", 8)), tiny("qwen2").chat, 10**6)
