"""Scenes of digits and their questions: a pure function of split, index and options."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

from vlrft.data import LazySamples, read_prompt
from vlrft.schema import IMAGE, Message, Sample
from vlrft.vision.boxes import to_thousandths

from .options import Options
from .scans import draw_digit

if TYPE_CHECKING:
    from PIL.Image import Image

CACHED = 512  # scenes kept in memory; about 20 MB at 112 pixels
LEFT_RIGHT = "left\nright"

Place = tuple[int, int]  # column and row of a cell
Square = tuple[int, int, int, int]  # pixels


@dataclass(frozen=True, kw_only=True)
class Question:
    """The digits of a scene, and a question about them."""

    digits: tuple[tuple[int, Place], ...]  # with their cells
    fields: dict[str, int]  # of the prompt
    answer: Any = None  # None: the first digit's box
    tags: dict[str, str]


def load(split: str, options: Options) -> LazySamples:
    """A split's scenes, each composed on access."""
    compose = lru_cache(maxsize=CACHED)(partial(compose_scene, split, options))
    return LazySamples(compose, range(getattr(options, split)))


def compose_scene(split: str, options: Options, index: int) -> Sample:
    name = f"digits/{split}/{index}"
    rng = random.Random(name)
    width, height = rng.choice(options.canvas), rng.choice(options.canvas)
    rows, columns = options.across(height), options.across(width)
    cells = [(column, row) for row in range(rows) for column in range(columns)]
    kind = options.subtasks[index % len(options.subtasks)]
    question = QUESTIONS[kind](rng, cells, options)
    image, squares = draw(question, split, (width, height), rng, options)
    box = to_thousandths(squares[0], width, height)
    return Sample(
        id=name,
        messages=(
            Message(
                role="user", content=(IMAGE, read_prompt(__file__, kind).format(**question.fields))
            ),
        ),
        images=(image,),
        answer=box if question.answer is None else question.answer,
        tags={"kind": kind, **question.tags},
        info={"size": [width, height], "digits": [digit for digit, _ in question.digits]},
    )


def draw(
    question: Question, split: str, size: tuple[int, int], rng: random.Random, options: Options
) -> tuple[Image, list[Square]]:
    """The picture, and the square of each digit, which lies at a random place in its cell; squares never overlap."""
    from PIL import Image

    canvas = Image.new("L", size)
    cell = [options.cell(length) for length in size]
    squares: list[Square] = []
    for digit, place in question.digits:
        side = rng.choice(options.sides())
        x, y = (
            at * length + rng.choice(range(0, length - side + 1, options.grid))
            for at, length in zip(place, cell, strict=True)
        )
        canvas.paste(draw_digit(rng, digit, split, side), (x, y))
        squares.append((x, y, x + side, y + side))
    return canvas.convert("RGB"), squares


def classify(rng: random.Random, cells: Sequence[Place], options: Options) -> Question:
    digit = rng.choice(options.digits)
    return Question(
        digits=((digit, rng.choice(cells)),),
        fields={},
        answer=str(digit),
        tags={"answer": "choice"},
    )


def count(rng: random.Random, cells: Sequence[Place], options: Options) -> Question:
    target, *others = rng.sample(options.scene_digits, len(options.scene_digits))
    distractors = 0 if options.easy_count else rng.randint(*options.distractors)
    fewest = 0 if distractors else 1
    copies = rng.randint(fewest, max(fewest, min(options.max_count, len(cells) - distractors)))
    digits = [target] * copies + rng.choices(others, k=min(distractors, len(cells) - copies))
    places = rng.sample(cells, len(digits))
    return Question(
        digits=tuple(zip(digits, places, strict=True)),
        fields={"target": target},
        answer=copies,
        tags={"answer": "count"},
    )


def relation(rng: random.Random, cells: Sequence[Place], options: Options) -> Question:
    pair = rng.sample(options.scene_digits, 2)
    target, other = sorted(pair) if options.ordered else pair
    first, second = rng.sample(cells, 2)
    while first[0] == second[0]:
        first, second = rng.sample(cells, 2)
    return Question(
        digits=((target, first), (other, second)),
        fields={"target": target, "other": other},
        answer="A" if first[0] < second[0] else "B",
        tags={"answer": "choice", "options": LEFT_RIGHT},
    )


def ground(rng: random.Random, cells: Sequence[Place], options: Options) -> Question:
    digits = rng.sample(options.scene_digits, 1 + rng.randint(*options.distractors))
    places = rng.sample(cells, len(digits))
    return Question(
        digits=tuple(zip(digits, places, strict=True)),
        fields={"target": digits[0]},
        tags={"answer": "box"},
    )


def multiply(product: int, digit: int) -> int:
    """The last digit of a product."""
    return product * digit % 10


def last_digit(rng: random.Random, cells: Sequence[Place], options: Options) -> Question:
    """Digits to multiply, row by row from the left."""
    number = rng.randint(*options.factors)
    digits = rng.choices(options.scene_digits, k=number)
    places = sorted(rng.sample(cells, number), key=lambda place: (place[1], place[0]))
    return Question(
        digits=tuple(zip(digits, places, strict=True)),
        fields={},
        answer=reduce(multiply, digits),
        tags={"answer": "count"},
    )


QUESTIONS = {
    "classify": classify,
    "count": count,
    "relation": relation,
    "ground": ground,
    "product": last_digit,
    "product_steps": last_digit,
}
