"""The length of a row's prompt, with its images and videos, of which none is decoded."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import sqrt

from vlrft.data import Defect, Row
from vlrft.data.clips import ClipTimes, outline_clips
from vlrft.data.pictures import measure_picture
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, VIDEO, DataError, Resize, Sample, VideoText
from vlrft.schema.sample import count_slots
from vlrft.vision.boxes import resized_size
from vlrft.vision.limits import MAX_RATIO
from vlrft.vision.video.frames import FrameRule

TEMPLATE_TOKENS = 256  # more than a chat template adds to a text
BAD_VIDEO = "video missing or unreadable"  # reasons of defects
BAD_PICTURE = "image missing or unreadable"
MANY_IMAGES = "too many images"
NO_ROOM = "images do not fit"  # policy.max_prompt_pixels


def find_many_images(row: Row, sample: Sample, most: int) -> Defect | None:
    """The defect of a row whose prompt has more images than `most`. `sample`: of the row, without its images."""
    number = count_slots(sample.shown_messages, IMAGE)
    if number <= most:
        return None
    return Defect(id=row.id, reason=MANY_IMAGES, detail=f"{number} images")


def find_long_prompt(
    row: Row, sample: Sample, chat: Chat, limit: int, rule: FrameRule, times: ClipTimes
) -> Defect | None:
    """The defect of a row whose prompt has more than `limit` tokens, images and videos included, or more images than fit into
    `policy.max_prompt_pixels`; or whose videos cannot be measured, or its pictures where their size decides. None for any other
    row.

    `sample`: of the row, without its images and videos; `rule`: which frames of a video are seen; `times`: of the videos that
    were measured before. Raises DataError for videos that the policy does not take.
    """
    places = count_slots(sample.shown_messages, IMAGE)
    try:
        resize = chat.resize_of(places)
    except DataError as e:
        return Defect(id=row.id, reason=NO_ROOM, detail=str(e))
    videos: list[tuple[int, VideoText]] = []
    if count_slots(sample.shown_messages, VIDEO):
        measure = chat.video_measure()
        try:
            outlines = outline_clips(row.videos, rule, times)
            videos = [measure(v) for v in replace(sample, videos=outlines).shown_videos]
        except DataError as e:
            return Defect(id=row.id, reason=BAD_VIDEO, detail=str(e))
    in_videos = sum(tokens for tokens, _ in videos)
    texts = tuple(video.text for _, video in videos)
    runs = sum(video.runs for _, video in videos)  # of a video, in its text: a token each
    most = 1 if resize is None else _most_tokens(resize)  # of an image
    images = places * (most - 1)
    written = _bytes(sample) + sum(len(text.encode()) for text in texts)
    if written + TEMPLATE_TOKENS + images + in_videos <= limit:
        return None
    tokens = chat.count_text_tokens(sample.shown_messages, name=sample.id, videos=texts)
    tokens += in_videos - runs
    if tokens + images <= limit:
        return None
    in_images = places
    if resize is not None and tokens <= limit:
        try:
            sizes = [image.size for example in sample.examples for image in example.images]
            sizes += map(measure_picture, row.pictures)
            in_images = sum(_image_tokens(size, resize) for size in sizes)
        except (DataError, ValueError) as e:
            return Defect(id=row.id, reason=BAD_PICTURE, detail=str(e))
    length = tokens - places + in_images
    if length <= limit:
        return None
    parts = {"images": in_images if in_images > places else 0, "videos": in_videos}
    named = " and ".join(f"{number} of {kind}" for kind, number in parts.items() if number)
    return Defect(
        id=row.id, reason="prompt too long", detail=f"{length} tokens ({named or 'without images'})"
    )


def _most_tokens(resize: Resize) -> int:
    """The most tokens of an image; a long one may exceed the bound of pixels, as its shorter side has at least one patch."""
    longest = resize.factor * sqrt(MAX_RATIO * resize.max_pixels)
    return int(max(resize.max_pixels, longest) / resize.factor**2) + 1


def _image_tokens(size: tuple[int, int], resize: Resize) -> int:
    width, height = resized_size(*size, **asdict(resize))
    return width * height // resize.factor**2


def _bytes(sample: Sample) -> int:
    texts = (part for m in sample.shown_messages for part in m.content if isinstance(part, str))
    return sum(len(text.encode(errors="replace")) for text in texts)
