"""Questions about synthetic scenes, whose answers are computed from the places of their things, and their wordings."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from .scenes import COLUMNS, PLACES, ROWS, THINGS, Place, Thing, draw_scene, place_things

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class Question:
    """A scene's picture and what is asked about it. `choices`: the right one comes first."""

    kind: str
    text: str
    choices: Sequence[str]
    image: Image
    seen: str
    """The thing at each place, from the left to the right, with the number of those that are counted; then again those that are asked
    about, in the order of the question."""


def _count(wording: str, rng: random.Random) -> Question:
    name, *others = rng.sample(list(THINGS), 3)
    number = rng.randint(1, 4)
    names = [name] * number + [rng.choice(others) for _ in range(rng.randint(0, 5 - number))]
    things = place_things(rng, names)
    wrong = rng.sample([n for n in range(1, 6) if n != number], 3)
    text = wording.format(plural={"box": "boxes"}.get(name, f"{name}s"))
    choices = [str(n) for n in (number, *wrong)]
    seen = _look_around(things, counted=name)
    return Question(
        kind="Count", text=text, choices=choices, image=draw_scene(things, ()), seen=seen
    )


def _relation(wording: str, rng: random.Random) -> Question:
    """Left or right."""
    first, second, *others = _until(rng, lambda a, b, *_: a.column != b.column)
    sides = ["left", "right"] if first.column < second.column else ["right", "left"]
    text = wording.format(a=first.name, b=second.name)
    return _compare("Relation", text, sides, (first, second), others)


def _depth(wording: str, rng: random.Random) -> Question:
    first, second, *others = _until(rng, lambda a, b, *_: a.is_near != b.is_near)
    near, far = (first, second) if first.is_near else (second, first)
    text = wording.format(a=first.name, b=second.name)
    return _compare("Depth", text, [near.name, far.name], (first, second), others)


def _distance(wording: str, rng: random.Random) -> Question:
    def clear(a: Thing, b: Thing, c: Thing, *others: Thing) -> bool:
        near, far = sorted((a.metres(b), a.metres(c)))
        return far > 1.3 * near

    thing, first, second, *others = _until(rng, clear)
    near, far = sorted((first, second), key=thing.metres)
    text = wording.format(a=thing.name, b=first.name, c=second.name)
    return _compare("Distance", text, [near.name, far.name], (thing, first, second), others)


def _until(rng: random.Random, clear: Callable[..., bool]) -> list[Thing]:
    """Three or four things that the question has a clear answer for."""
    while True:
        names = rng.sample(list(THINGS), rng.randint(3, 4))
        if clear(*(things := place_things(rng, names))):
            return things


def _compare(
    kind: str, text: str, choices: Sequence[str], asked: Sequence[Thing], others: Sequence[Thing]
) -> Question:
    """The things that are `asked` about have boxes around them where the text names boxes."""
    things = (*asked, *others)
    image = draw_scene(things, asked if "box)" in text else ())
    seen = f"{_look_around(things)}. {', '.join(map(_describe, asked))}"
    return Question(kind=kind, text=text, choices=choices, image=image, seen=seen)


def _look_around(things: Sequence[Thing], counted: str | None = None) -> str:
    """Each place with its thing, or nothing; things with the name `counted` are numbered."""
    at = {thing.place: thing for thing in things}
    numbers = count(1)
    seen = []
    for place in PLACES:
        name = at[place].name if place in at else "nothing"
        number = f"{next(numbers)} " if name == counted else ""
        seen.append(f"{name} {number}{_place_name(place)}")
    return ", ".join(seen)


def _describe(thing: Thing) -> str:
    return f"{thing.name} {_place_name(thing.place)}"


def _place_name(place: Place) -> str:
    return f"{COLUMNS[place[0]]} {ROWS[place[1]]}"


Kind = Callable[[str, random.Random], Question]
TRAIN: Mapping[Kind, Sequence[str]] = {
    _count: (
        "How many {plural} are there?",
        "How many {plural} are there in the image?",
        "What is the number of {plural} in the image?",
        "Considering the objects in this image, how many are {plural}?",
        "Of the objects in the image provided, how many objects are {plural}?",
        "In the image provided, what is the number of {plural} located in front of the camera?",
    ),
    _relation: (
        "On which side of the {b} is the {a}?",
        "Is the {a} located to the left or the right of the {b} in the image?",
        "In the image provided, where is the {a} (annotated by the red box) with respect to the {b} (annotated by the blue box)?",
        "Considering the relative positions of the {a} and the {b}, on which side of the {b} is the {a} located?",
        "Where is the {a} (annotated by the red box) located with respect to the {b} (annotated by the blue box)?",
        "Considering the {a} (highlighted by a red box) and the {b} (highlighted by a blue box) in this image, is the {a} located to the left "
        "or the right of the {b}?",
        "Considering the relative positions of the objects in the image provided, on which side of the {b} (annotated by the blue box) is "
        "the {a} (annotated by the red box) located?",
    ),
    _depth: (
        "Which is closer to the camera, the {a} or the {b}?",
        "Of the {a} and the {b}, which object is closer to the camera taking this photo?",
        "Of the {a} (highlighted by a red box) and the {b} (highlighted by a blue box), which object is closer to the camera taking this photo?",
        "In the image provided, which is closer to the camera, the {a} (annotated by the red box) or the {b} (annotated by the blue box)?",
        "Considering the relative positions of the objects in this image, is the {a} (highlighted by a red box) or the {b} (highlighted by a "
        "blue box) closer to the camera?",
    ),
    _distance: (
        "Which object is closer to the {a}, the {b} or the {c}?",
        "Considering the distances between the objects in the image, which is closer to the {a}, the {b} or the {c}?",
        "Of the {b} (highlighted by a blue box) and the {c} (highlighted by a green box), which object is closer to the {a} (highlighted by a "
        "red box)?",
        "Estimate the real-world distances between the objects. Of the {b} (highlighted by a blue box) and the {c} (highlighted by a green "
        "box), which is closer to the {a} (highlighted by a red box) in this image?",
        "Considering the real-world distances between objects in the image provided, which of them is closer to the {a} (annotated by the red "
        "box), the {b} (annotated by the blue box) or the {c} (annotated by the green box)?",
    ),
}
"""SAT's forms of questions, made of the words of CV-Bench, and in many lengths: a small policy reads the wrong place of a picture
where the question between it and the answer is longer or shorter than those it knows."""
TEST: Mapping[Kind, Sequence[str]] = {
    _count: ("How many {plural} are in the image?",),
    _relation: (
        "Considering the relative positions of the {a} (annotated by the red box) and the {b} (annotated by the blue box) in the image "
        "provided, where is the {a} located with respect to the {b}?",
    ),
    _depth: (
        "Which object is closer to the camera taking this photo, the {a} (highlighted by a red box) or the {b} (highlighted by a blue box)?",
    ),
    _distance: (
        "Estimate the real-world distances between objects in this image. Which object is closer to the {a} (highlighted by a red box), the "
        "{b} (highlighted by a blue box) or the {c} (highlighted by a green box)?",
    ),
}
"""CV-Bench's questions."""
