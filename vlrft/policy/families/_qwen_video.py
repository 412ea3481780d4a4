"""Videos as Qwen2-VL takes them, and with a few values or methods changed the families after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vlrft.policy.families._qwen import VIDEO_PAD, VISION_END, VISION_START
from vlrft.schema import Frames, Pixels, VideoText
from vlrft.vision.processor import bound_by_own_size, require_torchvision

SAME_TIME = 1e-3  # seconds


class QwenVideo:
    """Two frames make one row of patches in time; a video is one run of tokens."""

    video_text = f"{VISION_START}{VIDEO_PAD}{VISION_END}"
    video_place = VIDEO_PAD
    # values by which families differ
    video_processor = "Qwen2VLVideoProcessor"  # transformers' class
    run_token = VIDEO_PAD  # in the text of a video, once for each run
    bounds_whole_video = False  # the processor's bounds are of all frames together, not of each

    def video_token_id(self, model: Any) -> int:
        token: int = model.config.video_token_id
        return token

    def build_video_processor(self, image_processor: Any) -> Any:
        """With the bounds of the image processor, as in the released models."""
        require_torchvision()
        import transformers

        make = getattr(transformers, self.video_processor)
        size = {} if self.bounds_whole_video else {"size": dict(image_processor.size)}
        return bound_by_own_size(make(patch_size=image_processor.patch_size, **size))

    def process_video(
        self, processor: Any, frames: Frames, bounds: tuple[int | None, int | None], key: str
    ) -> Pixels:
        pictures = torch.from_numpy(frames.pictures.copy()).permute(0, 3, 1, 2)
        inputs = processor(
            videos=[pictures],
            do_sample_frames=False,
            return_tensors="pt",
            size=self._bounds(processor, len(frames), bounds),
        )
        time, height, width = inputs["video_grid_thw"][0].tolist()
        return Pixels(
            key=key,
            tokens=time * height * width // processor.merge_size**2,
            grid=(time, height, width),
            values=inputs["pixel_values_videos"],
            video=self._text(processor, frames, time),
        )

    def measure_video(
        self, processor: Any, frames: Frames, bounds: tuple[int | None, int | None]
    ) -> tuple[int, VideoText]:
        """See `TakesVideos`."""
        width, height = frames.size
        count = len(frames)
        size = {"size": self._bounds(processor, count, bounds)}
        patches: int = processor.get_num_of_video_patches(count, height, width, size)
        rows = -(-count // processor.temporal_patch_size)
        return patches // processor.merge_size**2, self._text(processor, frames, rows)

    def _text(self, processor: Any, frames: Frames, rows: int) -> VideoText:
        merged = processor.temporal_patch_size
        text = self.write_video(frame_times(frames), rows, merged)
        runs = text.count(self.run_token)
        return VideoText(text=text, runs=runs, interval=merged / frames.fps)

    def _bounds(
        self, processor: Any, frames: int, bounds: tuple[int | None, int | None]
    ) -> dict[str, int]:
        """The processor's bounds with these of a frame's area: where it has them for all frames, its upper one stays."""
        names = ("shortest_edge", "longest_edge")  # areas, despite these names
        own = {name: getattr(processor.size, name) for name in names}
        count = max(round(frames / 2) * 2, 2) if self.bounds_whole_video else 1  # as it counts them
        for name, area in zip(names, bounds, strict=True):
            if area is not None:
                own[name] = area * count
        if self.bounds_whole_video:
            own["longest_edge"] = min(own["longest_edge"], processor.size.longest_edge)
        return own

    def write_video(self, seconds: Sequence[float], rows: int, merged: int) -> str:
        """The text of a video in a prompt. `seconds`: of each frame; `rows`: of patches in time, each of `merged` frames."""
        return VIDEO_PAD


class TimedVideo(QwenVideo):
    """Videos as Qwen3-VL and the families after it take them: the time is text before each row of patches."""

    video_processor = "Qwen3VLVideoProcessor"
    bounds_whole_video = True

    def write_video(self, seconds: Sequence[float], rows: int, merged: int) -> str:
        """Each row of patches after its time, which is halfway between its first and its last frame. The template's own pair of
        tokens stays around all of them, as in transformers from 5.10 on; 4.57 and vLLM leave it out."""
        padded = [*seconds, *[seconds[-1]] * (rows * merged - len(seconds))]
        times = [(padded[k] + padded[k + merged - 1]) / 2 for k in range(0, len(padded), merged)]
        return "".join(f"<{time:.1f} seconds>{self.video_text}" for time in times)


def frame_times(frames: Frames) -> list[float]:
    """When each frame is on screen, in seconds; at a constant rate by its number, as transformers' processors have it."""
    by_number = [index / frames.source_fps for index in frames.indices]
    gaps = (abs(a - b) for a, b in zip(by_number, frames.seconds, strict=True))
    return by_number if max(gaps) < SAME_TIME else list(frames.seconds)
