"""The places of images and videos in a prompt: their text, and one token for each of their features."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.policy.families import TakesVideos, VisionFamily
from vlrft.schema import IMAGE, VIDEO, DataError, Pixels, Slot


def slot_texts(vision: VisionFamily | None) -> dict[Slot, str]:
    """The texts of images and videos in a prompt without chat template."""
    videos = vision.video_text if isinstance(vision, TakesVideos) else ""
    return {IMAGE: "" if vision is None else vision.image_text, VIDEO: videos}


def video_texts(pixels: Sequence[Pixels]) -> tuple[str, ...]:
    """The texts of the videos among images and videos."""
    return tuple(image.video.text for image in pixels if image.video is not None)


def write_videos(text: str, videos: Sequence[str], vision: VisionFamily | None) -> str:
    """The rendered text with those of its videos. Raises DataError where it has not as many places."""
    if not videos:
        return text
    assert isinstance(vision, TakesVideos)
    before, *after = text.split(vision.video_place)
    if len(after) != len(videos):
        raise DataError(
            f"{len(after)} video placeholders in the rendered prompt for {len(videos)} videos; the chat template must "
            "handle videos"
        )
    return before + "".join(f"{own}{rest}" for own, rest in zip(videos, after, strict=True))


def fill_places(
    ids: Sequence[int], pixels: Sequence[Pixels], image_token: int | None, video_token: int | None
) -> tuple[int, ...]:
    """The ids of a rendered prompt with one token for each feature of its image or video, where they have one for each image
    and each run of a video. `pixels`: in the order of their places. Raises DataError where the places are others."""
    runs = [
        (image_token if image.video is None else video_token, image.tokens // count)
        for image in pixels
        for count in [1 if image.video is None else image.video.runs]
        for _ in range(count)
    ]
    tokens = {image_token, video_token} - {None}
    places = [i for i in ids if i in tokens]
    if places != [i for i, _ in runs]:
        stills = sum(image.video is None for image in pixels)
        videos = f" and {len(pixels) - stills} videos" if stills < len(pixels) else ""
        raise DataError(
            f"{len(places)} image placeholders in the rendered prompt for {stills} images{videos}; "
            "the chat template must handle images" + (" and videos" if videos else "")
        )
    remaining = iter(runs)
    out: list[int] = []
    for i in ids:
        out += [i] * next(remaining)[1] if i in tokens else [i]
    return tuple(out)
