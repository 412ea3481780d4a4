"""Videos of digits and their questions: a pure function of split, index and options."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vlrft.data import LazySamples, read_prompt
from vlrft.schema import VIDEO, Frames, Message, Sample

from ..digits.scans import draw_digit
from .options import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

CACHED = 128  # videos kept in memory; about 15 MB with the options unless set
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1))


@dataclass(frozen=True, kw_only=True)
class Question:
    """The digits that pass, in their order, and a question about them."""

    digits: tuple[int, ...]
    fields: dict[str, int]  # of the prompt
    answer: Any = None  # None: when the digit at `asked` passes
    asked: int = 0
    tags: dict[str, str]


def load(split: str, options: Options) -> LazySamples:
    """A split's videos, each composed on access."""
    compose = lru_cache(maxsize=CACHED)(partial(compose_video, split, options))
    return LazySamples(compose, range(getattr(options, split)))


def compose_video(split: str, options: Options, index: int) -> Sample:
    name = f"digits_moving/{split}/{index}"
    rng = random.Random(name)
    kind = options.subtasks[index % len(options.subtasks)]
    question = QUESTIONS[kind](rng, rng.randint(*options.passes), options)
    passes = place(rng, len(question.digits), options)
    pictures = draw(rng, question.digits, passes, split, options)
    # Hundredths of a second, as published annotations of time have at most.
    segment = tuple(round(frame / options.fps, 2) for frame in passes[question.asked])
    content = (VIDEO, read_prompt(__file__, kind).format(**question.fields))
    return Sample(
        id=name,
        messages=(Message(role="user", content=content),),
        videos=(
            Frames(
                pictures=pictures,
                indices=range(options.frames),
                seconds=tuple(k / options.fps for k in range(options.frames)),
                source_fps=options.fps,
                source_seconds=options.frames / options.fps,
            ),
        ),
        answer=segment if question.answer is None else question.answer,
        tags={"kind": kind, **question.tags},
        info={"passes": [[d, *p] for d, p in zip(question.digits, passes, strict=True)]},
    )


def place(rng: random.Random, count: int, options: Options) -> list[tuple[int, int]]:
    """The first frame of each of `count` passes and the one after its last; at most one digit passes at a time."""
    cuts = sorted(rng.sample(range(options.steps + count), 2 * count))
    # Moved back by one step a pass: so that one may begin where the one before it ends.
    bounds = [cut - k // 2 for k, cut in enumerate(cuts)]
    return [
        (bounds[k] * options.step, bounds[k + 1] * options.step) for k in range(0, 2 * count, 2)
    ]


def draw(
    rng: random.Random,
    digits: tuple[int, ...],
    passes: list[tuple[int, int]],
    split: str,
    options: Options,
) -> NDArray[np.uint8]:
    """The frames, black but where a digit passes: it moves from one edge to the opposite one, whole in every frame."""
    frames = np.zeros((options.frames, options.canvas, options.canvas), np.uint8)
    for digit, (start, end) in zip(digits, passes, strict=True):
        side = rng.randint(*options.sizes)
        ink = np.asarray(draw_digit(rng, digit, split, side))
        room = options.canvas - side
        across, other = rng.choice(DIRECTIONS), rng.randint(0, room)
        for k in range(start, end):
            way = room * (k - start) // max(end - start - 1, 1)
            way = way if sum(across) > 0 else room - way
            x, y = (way, other) if across[0] else (other, way)
            frames[k, y : y + side, x : x + side] = ink
    return np.repeat(frames[..., None], 3, axis=3)


def first(rng: random.Random, passes: int, options: Options) -> Question:
    digits = rng.sample(options.digits, passes)
    return Question(
        digits=tuple(digits), fields={}, answer=str(digits[0]), tags={"answer": "choice"}
    )


def count(rng: random.Random, passes: int, options: Options) -> Question:
    target, *others = rng.sample(options.digits, len(options.digits))
    copies = rng.randint(0, min(options.max_count, passes))
    digits = [target] * copies + rng.choices(others, k=passes - copies)
    rng.shuffle(digits)
    return Question(
        digits=tuple(digits), fields={"target": target}, answer=copies, tags={"answer": "count"}
    )


def when(rng: random.Random, passes: int, options: Options) -> Question:
    digits = rng.sample(options.digits, passes)
    asked = rng.randrange(passes)
    return Question(
        digits=tuple(digits),
        fields={"target": digits[asked]},
        asked=asked,
        tags={"answer": "segment"},
    )


QUESTIONS = {"first": first, "count": count, "when": when}
