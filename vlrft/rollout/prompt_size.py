"""Estimated sizes of prompts, by which samples are sharded over ranks."""

from __future__ import annotations

from vlrft.schema import Resize, Sample

CHARACTERS = 4  # per token, approximately


def prompt_size(sample: Sample, resize: Resize | None) -> float:
    """The approximate number of tokens of the sample's first prompt, from its characters and the areas of its images and videos; the
    prompt is not rendered. `resize`: how the policy's image processor resizes, None where it has none."""
    texts = [
        part
        for message in sample.shown_messages
        for part in message.content
        if isinstance(part, str)
    ]
    tokens = sum(map(len, texts)) / CHARACTERS
    if resize is not None:
        areas = (image.width * image.height for image in sample.shown_images)
        resized = (min(max(area, resize.min_pixels), resize.max_pixels) for area in areas)
        tokens += sum(resized) / resize.factor**2
        for video in sample.shown_videos:  # two frames have the tokens of one image
            tokens += len(video) * video.size[0] * video.size[1] / resize.factor**2 / 2
    return tokens
