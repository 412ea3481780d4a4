"""The images and videos that a sample shows: its own, and those of examples before them."""

from __future__ import annotations

import numpy as np

from vlrft.schema import IMAGE, VIDEO, Example, Frames, Message, Sample
from vlrft.schema.sample import part_text


def video(shade: int) -> Frames:
    pictures = np.full((2, 4, 4, 3), shade, np.uint8)
    return Frames(
        pictures=pictures, indices=[0, 1], seconds=[0.0, 0.5], source_fps=2.0, source_seconds=1.0
    )


def test_videos_are_shown_in_the_order_of_their_places() -> None:
    opening, asked, shown, answer = (
        Message(role="system", content=(VIDEO,)),
        Message(role="user", content=(VIDEO, IMAGE, "?")),
        Message(role="user", content=(VIDEO, "?")),
        Message(role="assistant", content=("7",)),
    )
    example = Example(messages=(shown, answer), videos=(video(9),))
    sample = Sample(id="a", messages=(opening, asked), videos=(video(1), video(2)))
    assert sample.shown_videos is sample.videos
    with_example = Sample(
        id="a", messages=(opening, asked), videos=sample.videos, examples=(example,)
    )
    assert with_example.shown_messages == (opening, shown, answer, asked)
    assert [int(v.pictures.max()) for v in with_example.shown_videos] == [1, 9, 2]


def test_places_are_named_in_logs() -> None:
    assert [part_text(part) for part in (IMAGE, " and ", VIDEO)] == ["<image>", " and ", "<video>"]
