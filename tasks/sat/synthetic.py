"""Questions about synthetic scenes: the number, order, depth and distances of their things are computed.

The training rows are a table as SAT's, the test rows two tables as CV-Bench's, with its boxes around the things that are asked
about and its sources, of which its score is made.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, write_hub_table

from .rows import Options
from .scenes import COLOURS, SHAPES, Thing, draw_names, draw_scene, place_things

if TYPE_CHECKING:
    from PIL.Image import Image

SAT = {
    "image_bytes": "images",
    "question": "string",
    "answers": "strings",
    "question_type": "string",
    "correct_answer": "string",
}
CVBENCH = {
    "idx": "int64",
    "type": "string",
    "task": "string",
    "image": "image",
    "question": "string",
    "choices": "strings",
    "answer": "string",
    "prompt": "string",
    "filename": "string",
    "source": "string",
    "source_dataset": "string",
    "source_filename": "string",
}
SOURCES = {"2D": ("ADE20K", "COCO"), "3D": ("Omni3D",)}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A scene's picture and what is asked about it. `choices`: the right one first."""

    kind: str
    text: str
    choices: Sequence[str]
    image: Image


def _count(wording: str, rng: random.Random) -> Question:
    (_, shape), *others = draw_names(rng, len(COLOURS) * len(SHAPES))
    others = [name for name in others if name[1] != shape]
    number = rng.randint(1, 4)
    names = [(rng.choice(list(COLOURS)), shape) for _ in range(number)]
    things = place_things(rng, [*names, *others[: rng.randint(0, 5 - number)]])
    wrong = rng.sample([n for n in range(6) if n != number], 3)
    plural = {"box": "boxes"}.get(shape, f"{shape}s")
    text = wording.format(plural=plural)
    return _question(rng, things, (), "Count", text, [str(n) for n in (number, *wrong)])


def _relation(wording: str, rng: random.Random) -> Question:
    """Left or right; what is asked differs clearly."""
    first, second, *others = _until(rng, 3, lambda a, b, *_: abs(_middle(a) - _middle(b)) > 0.15)
    sides = ["left", "right"] if _middle(first) < _middle(second) else ["right", "left"]
    text = wording.format(a=first.name, b=second.name)
    return _question(rng, (first, second, *others), (first, second), "Relation", text, sides)


def _depth(wording: str, rng: random.Random) -> Question:
    first, second, *others = _until(rng, 3, lambda a, b, *_: abs(a.place[1] - b.place[1]) > 1.2)
    near, far = sorted((first, second), key=lambda t: t.place[1])
    text = wording.format(a=first.name, b=second.name)
    things = (first, second, *others)
    return _question(rng, things, (first, second), "Depth", text, [near.name, far.name])


def _distance(wording: str, rng: random.Random) -> Question:
    def clear(a: Thing, b: Thing, c: Thing) -> bool:
        near, far = sorted((_metres(a, b), _metres(a, c)))
        return far > 1.6 * near

    thing, first, second = _until(rng, 3, clear)
    near, far = sorted((first, second), key=lambda t: _metres(thing, t))
    text = wording.format(a=thing.name, b=first.name, c=second.name)
    things = (thing, first, second)
    return _question(rng, things, things, "Distance", text, [near.name, far.name])


def _until(rng: random.Random, count: int, clear: Callable[..., bool]) -> list[Thing]:
    """A scene that the question has a clear answer in."""
    while not clear(*(things := place_things(rng, draw_names(rng, count)))):
        pass
    return things


def _middle(thing: Thing) -> float:
    return (thing.box[0] + thing.box[2]) / 2


def _metres(thing: Thing, other: Thing) -> float:
    return math.dist(thing.place, other.place)


def _question(
    rng: random.Random,
    things: Sequence[Thing],
    asked: Sequence[Thing],
    kind: str,
    text: str,
    choices: Sequence[str],
) -> Question:
    """`asked`: the things with boxes around them, where the text names boxes."""
    image = draw_scene(things, asked if "box)" in text else (), rng)
    return Question(kind=kind, text=text, choices=choices, image=image)


def _train(kind: Kind, wording: str, draw: Draw) -> dict[str, Any]:
    question = kind(wording, draw.rng)
    return {
        "image_bytes": [question.image],
        "question": question.text,
        "answers": list(question.choices),
        "question_type": "other",
        "correct_answer": question.choices[0],
    }


def _test(kind: Kind, wording: str, draw: Draw) -> dict[str, Any]:
    question, rng = kind(wording, draw.rng), draw.rng
    choices = rng.sample(question.choices, len(question.choices))
    letter = f"({'ABCDEFGH'[choices.index(question.choices[0])]})"
    form = "2D" if question.kind in ("Count", "Relation") else "3D"
    source = rng.choice(SOURCES[form])
    listed = "\n".join(f"({a}) {text}" for a, text in zip("ABCDEFGH", choices, strict=False))
    name = f"{draw.index:06}.png"
    return {
        "idx": draw.index,
        "type": form,
        "task": question.kind,
        "image": question.image,
        "question": question.text,
        "choices": choices,
        "answer": letter,
        "prompt": f"{question.text} Select from the following choices.\n{listed}",
        "filename": f"img/{form}/{question.kind.lower()}/{source.lower()}_{draw.index}.png",
        "source": source,
        "source_dataset": f"{source} synthetic twin",
        "source_filename": name,
    }


Kind = Callable[[str, random.Random], Question]
TRAIN: Mapping[str, tuple[Kind, str]] = {
    "SAT count": (_count, "How many {plural} are visible in the scene?"),
    "SAT number": (_count, "What is the number of {plural} in view?"),
    "SAT relation": (_relation, "Is the {a} to the left or the right of the {b}?"),
    "SAT side": (_relation, "From here, on which side of the {b} is the {a}?"),
    "SAT depth": (_depth, "Which is nearer to the camera, the {a} or the {b}?"),
    "SAT near": (_depth, "Of the {a} and the {b}, which one is at the smaller depth?"),
    "SAT distance": (_distance, "Which is nearer to the {a}, the {b} or the {c}?"),
    "SAT reach": (_distance, "Of the {b} and the {c}, which one is next to the {a}?"),
}
TEST: Mapping[str, tuple[Kind, str]] = {
    "CV-Bench count": (_count, "How many {plural} are in the image?"),
    "CV-Bench relation": (
        _relation,
        "Considering the relative positions of the {a} (annotated by the red box) and the {b} (annotated by the blue box) in "
        "the image provided, where is the {a} located with respect to the {b}?",
    ),
    "CV-Bench depth": (
        _depth,
        "Which object is closer to the camera taking this photo, the {a} (highlighted by a red box) or the {b} (highlighted "
        "by a blue box)?",
    ),
    "CV-Bench distance": (
        _distance,
        "Estimate the real-world distances between objects in this image. Which object is closer to the {a} (highlighted by a "
        "red box), the {b} (highlighted by a blue box) or the {c} (highlighted by a green box)?",
    ),
}


def _write(rows: Sequence[Mapping[str, Any]], split: str, options: Options, folder: Path) -> None:
    if split == "train":
        write_hub_table(folder / "SAT_train.parquet", SAT, rows)
        return
    for form in SOURCES:
        if of_form := [row for row in rows if row["type"] == form]:
            write_hub_table(folder / f"test_{form.lower()}.parquet", CVBENCH, of_form)


SYNTHETIC = Synthetic(
    templates={
        "train": {name: partial(_train, *made) for name, made in TRAIN.items()},
        "test": {name: partial(_test, *made) for name, made in TEST.items()},
    },
    write=_write,
)
