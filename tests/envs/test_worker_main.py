"""The digest by which a replayed result is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PIL import ExifTags, Image

from vlrft.envs.worker_main import digest
from vlrft.schema import Message, Observation, Step


def test_a_digest_covers_the_observation_the_reward_and_the_scores() -> None:
    picture, other = Image.new("RGB", (4, 2)), Image.new("RGB", (4, 2), (0, 0, 1))
    words = Message(role="user", content=("left",))
    observation = Observation(messages=(words,), images=(picture,), anchor=object())
    first = Step(observation=observation, reward=0.5, scores={"a": 1.0, "b": 0.0})
    same = replace(
        first,
        observation=replace(observation, images=(picture.copy(),), anchor=object()),
        scores={"b": 0.0, "a": 1.0},
    )
    assert digest(first) == digest(same)
    different = [
        replace(first, reward=0.5 + 1e-9),
        replace(first, scores={"a": 1.0, "b": 1.0}),
        replace(first, valid=False),
        replace(first, observation=None),
        *(
            replace(first, observation=changed)
            for changed in (
                replace(observation, images=(other,)),
                replace(observation, images=(Image.new("RGB", (2, 4)),)),
                replace(observation, images=()),
                replace(observation, follows=True),
                replace(observation, shown="left"),
                replace(observation, messages=(words, words)),
            )
        ),
    ]
    assert len({digest(first), *map(digest, different)}) == 1 + len(different)


def square(colour: str) -> Image.Image:
    return Image.new("RGB", (4, 4), colour).quantize(4)


def transparent(index: int) -> Image.Image:
    image = square("red")
    image.info["transparency"] = index
    return image


def turned(orientation: int) -> Image.Image:
    image = Image.new("RGB", (4, 4))
    image.getexif()[ExifTags.Base.Orientation] = orientation
    return image


@pytest.mark.parametrize(
    ("picture", "one", "other"),
    [(square, "red", "blue"), (transparent, 0, 1), (turned, 1, 6)],
)
def test_pictures_of_equal_pixels_that_are_shown_differently_have_different_digests(
    picture: Callable[[object], Image.Image], one: object, other: object
) -> None:
    digests = {digest(Observation(messages=(), images=(picture(v),))) for v in (one, other, one)}
    assert picture(one).tobytes() == picture(other).tobytes()
    assert len(digests) == 2
