"""Which frames of a video are chosen, and how large they are: as qwen-vl-utils does it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from vlrft.schema import DataError, Frames
from vlrft.vision.processor import prepare_torchvision
from vlrft.vision.video.frames import FrameRule


@pytest.fixture(scope="module")
def qwen() -> Any:
    """The functions of qwen-vl-utils, which imports torchvision."""
    prepare_torchvision()
    return pytest.importorskip("qwen_vl_utils.vision_process")


def frames(count: int = 4, **changes: Any) -> Frames:
    given: dict[str, Any] = {
        "pictures": np.zeros((count, 28, 56, 3), np.uint8),
        "indices": range(0, 15 * count, 15),
        "seconds": [k / 2 for k in range(count)],
        "source_fps": 30.0,
        "source_seconds": count / 2,
    }
    return Frames(**given | changes)


def test_the_number_of_frames_is_that_of_qwen_vl_utils(qwen: Any) -> None:
    draw = random.Random(0)
    rules = [{}, {"fps": 1.0}, {"fps": 7.5, "max_frames": 33}, {"min_frames": 9, "max_frames": 10}]
    for _ in range(400):
        rule: Any = draw.choice(rules)
        total, fps = draw.choice((2, 3, 5, draw.randint(2, 9000))), draw.uniform(0.5, 60)
        expected = qwen.smart_nframes({"fps": 2.0} | rule, total_frames=total, video_fps=fps)
        assert FrameRule(**rule).count(total, fps) == expected, (rule, total, fps)


def test_the_frames_are_those_of_qwen_vl_utils_but_where_two_are_equally_near(qwen: Any) -> None:
    torch = qwen.torch
    same = 0
    for total in range(2, 400):
        chosen = FrameRule(fps=5.0).indices(total, 25.0)
        exact = np.linspace(0, total - 1, len(chosen))
        theirs = torch.linspace(0, total - 1, len(chosen)).round().long().tolist()
        for mine, other, place in zip(chosen, theirs, exact, strict=True):
            assert mine == other or abs(abs(mine - place) - 0.5) < 1e-4, (total, mine, other)
            same += mine == other
        assert (chosen[0], chosen[-1]) == (0, total - 1)
    assert same > 10_000


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"total_pixels": 20 * 128 * 784},
        {"min_pixels": 784, "max_pixels": 50_000},
        {"min_pixels": 3136, "total_pixels": 100_000},
        {"min_pixels": 700 * 784},
    ],
)
@pytest.mark.parametrize("patch", [14, 16])
def test_the_size_of_a_frame_is_that_of_qwen_vl_utils(
    qwen: Any, monkeypatch: pytest.MonkeyPatch, budget: dict[str, int], patch: int
) -> None:
    sizes: list[list[int]] = []

    def resize(video: Any, size: list[int], **_: Any) -> Any:
        sizes.append(size)
        return video

    monkeypatch.setattr(qwen.transforms.functional, "resize", resize)
    monkeypatch.setattr(qwen, "get_video_reader_backend", lambda: "scripted")
    rule = FrameRule(factor=2 * patch, **budget)
    for count, width, height in ((2, 60, 40), (4, 320, 240), (30, 1280, 720), (768, 3840, 2160)):
        video = qwen.torch.zeros(1, 1, 1, 1, dtype=qwen.torch.uint8).expand(count, 3, height, width)
        read: Any = {
            "scripted": lambda _, video=video: (video[:, :1, :, :1].expand_as(video), {}, 2.0)
        }
        monkeypatch.setattr(qwen, "VIDEO_READER_BACKENDS", read)
        monkeypatch.setattr(qwen.torch.Tensor, "float", lambda tensor: tensor)
        qwen.fetch_video({"video": "clip.mp4", **budget}, image_patch_size=patch)
        assert rule.size(width, height, count) == tuple(reversed(sizes[-1])), (width, height)


@pytest.mark.parametrize("total", [0, 1])
def test_a_video_of_less_than_two_frames_has_no_frames_to_choose(total: int) -> None:
    with pytest.raises(ValueError, match=rf"^{total} frames?; at least two are needed$"):
        FrameRule().indices(total, 30.0)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"min_frames": 9, "max_frames": 9}, "min_frames 9, more than max_frames 8"),
        ({"max_pixels": 784}, r"max_pixels 784: use 100352 \(min_pixels\) to 602112"),
        ({"max_pixels": 602_113}, "max_pixels 602113: use 100352"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(rule: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FrameRule(**rule)


def test_frames_state_their_number_size_and_rate() -> None:
    video = frames(6)
    assert (len(video), video.size, video.fps) == (6, (56, 28), 2.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pictures": np.zeros((4, 28, 56), np.uint8)}, r"shape \[4, 28, 56\]"),
        ({"pictures": np.zeros((0, 28, 56, 3), np.uint8)}, r"shape \[0, 28, 56, 3\]"),
        ({"pictures": np.zeros((4, 28, 56, 3), np.float32)}, "type float32"),
        ({"indices": [0, 1, 2]}, "indices of frames are .*expected 4 numbers"),
        ({"seconds": [0, 2, 1, 3]}, "seconds of frames are"),
        ({"seconds": [0, 1, 2, float("inf")]}, "seconds of frames are"),
        ({"indices": [-1, 0, 1, 2]}, "indices of frames are"),
        ({"source_fps": 0.0}, "source_fps of frames is 0.0"),
        ({"source_seconds": float("nan")}, "source_seconds of frames is nan"),
    ],
)
def test_frames_that_do_not_fit_together_are_refused(changes: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        dataclasses.replace(frames(), **changes)
