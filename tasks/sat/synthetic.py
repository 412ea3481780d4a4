"""Questions about synthetic scenes: the number, order, depth and distances of their things are computed.

The training rows are a table as SAT's, the test rows two tables as CV-Bench's, with its boxes around the things that are asked
about and its sources, of which its score is made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, write_hub_table

from .rows import LETTERS, Options, shuffle_choices
from .scenes import COLUMNS, PLACES, ROWS, THINGS, Thing, draw_scene, place_things

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
ORDER = ("first", "second", "third")  # of things in a question
SOURCES = {"2D": ("ADE20K", "COCO"), "3D": ("Omni3D",)}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A scene's picture and what is asked about it. `choices`: the right one first."""

    kind: str
    text: str
    choices: Sequence[str]
    image: Image
    seen: str
    """The things at each place, from the left to the right, and which of them are asked about."""


def _count(wording: str, rng: random.Random) -> Question:
    name, *others = rng.sample(list(THINGS), 3)
    number = rng.randint(1, 4)
    names = [name] * number + [rng.choice(others) for _ in range(rng.randint(0, 5 - number))]
    things = place_things(rng, names)
    wrong = rng.sample([n for n in range(1, 6) if n != number], 3)
    text = wording.format(plural={"box": "boxes"}.get(name, f"{name}s"))
    numbers = map(str, range(1, number + 1))
    seen = _look_around(things, lambda thing: next(numbers) if thing.name == name else "")
    choices = [str(n) for n in (number, *wrong)]
    return _question(things, (), "Count", text, choices, seen)


def _relation(wording: str, rng: random.Random) -> Question:
    """Left or right."""
    first, second, *others = _until(rng, lambda a, b, *_: a.column != b.column)
    sides = ["left", "right"] if first.column < second.column else ["right", "left"]
    text = wording.format(a=first.name, b=second.name)
    things = (first, second, *others)
    return _question(things, (first, second), "Relation", text, sides)


def _depth(wording: str, rng: random.Random) -> Question:
    first, second, *others = _until(rng, lambda a, b, *_: a.is_near != b.is_near)
    near, far = (first, second) if first.is_near else (second, first)
    text = wording.format(a=first.name, b=second.name)
    things = (first, second, *others)
    return _question(things, (first, second), "Depth", text, [near.name, far.name])


def _distance(wording: str, rng: random.Random) -> Question:
    def clear(a: Thing, b: Thing, c: Thing, *others: Thing) -> bool:
        near, far = sorted((a.metres(b), a.metres(c)))
        return far > 1.3 * near

    thing, first, second, *others = _until(rng, clear)
    near, far = sorted((first, second), key=thing.metres)
    text = wording.format(a=thing.name, b=first.name, c=second.name)
    asked = (thing, first, second)
    return _question((*asked, *others), asked, "Distance", text, [near.name, far.name])


def _until(rng: random.Random, clear: Callable[..., bool]) -> list[Thing]:
    """Three or four things that the question has a clear answer for."""
    while True:
        names = rng.sample(list(THINGS), rng.randint(3, 4))
        if clear(*(things := place_things(rng, names))):
            return things


def _question(
    things: Sequence[Thing],
    asked: Sequence[Thing],
    kind: str,
    text: str,
    choices: Sequence[str],
    seen: str = "",
) -> Question:
    """`asked`: the things with boxes around them, where the text names boxes."""
    image = draw_scene(things, asked if "box)" in text else ())
    order = dict(zip((thing.name for thing in asked), ORDER, strict=False))
    seen = seen or _look_around(things, lambda thing: order.get(thing.name, ""))
    return Question(kind=kind, text=text, choices=choices, image=image, seen=seen)


def _look_around(things: Sequence[Thing], remark: Callable[[Thing], str]) -> str:
    """Each place with its thing and the remark on it."""
    at = {thing.place: thing for thing in things}
    seen = []
    for column, row in PLACES:
        thing = at.get((column, row))
        words = "nothing" if thing is None else f"{thing.name} {remark(thing)}"
        seen.append(f"{COLUMNS[column]} {ROWS[row]} {words}".strip())
    return ", ".join(seen)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A row of a table, and what is seen in its picture."""

    cells: Mapping[str, Any]
    seen: str


def _train(kind: Kind, wording: str, draw: Draw) -> Item:
    question = kind(wording, draw.rng)
    cells = {
        "image_bytes": [question.image],
        "question": question.text,
        "answers": list(question.choices),
        "question_type": "other",
        "correct_answer": question.choices[0],
    }
    return Item(cells=cells, seen=question.seen)


def _test(kind: Kind, wording: str, draw: Draw) -> Item:
    question, rng = kind(wording, draw.rng), draw.rng
    choices = rng.sample(question.choices, len(question.choices))
    letter = f"({LETTERS[choices.index(question.choices[0])]})"
    form = "2D" if question.kind in ("Count", "Relation") else "3D"
    source = rng.choice(SOURCES[form])
    listed = "\n".join(f"({a}) {text}" for a, text in zip(LETTERS, choices, strict=False))
    name = f"{draw.index:06}.png"
    cells = {
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
    return Item(cells=cells, seen=question.seen)


def _think(item: Item, index: int, split: str, options: Options) -> tuple[str, str]:
    """The row's id, and its thought: the things seen, then whether each option is right."""
    if split == "train":
        name = f"{split}/{index}"
        answer = item.cells["correct_answer"]
        choices = shuffle_choices(item.cells["answers"], name, options)
    else:
        name = f"cvbench/{item.cells['idx']}"
        choices = item.cells["choices"]
        answer = choices[LETTERS.index(item.cells["answer"].strip("()"))]
    verdicts = (
        f"{letter} {text} {'yes' if text == answer else 'no'}"
        for letter, text in zip(LETTERS, choices, strict=False)
    )
    return name, f"{item.seen}. {', '.join(verdicts)}"


Kind = Callable[[str, random.Random], Question]
TRAIN: Mapping[str, Kind] = {
    "How many {plural} are there in the image?": _count,
    "What is the number of {plural} in the image?": _count,
    "Is the {a} located to the left or the right of the {b} in the image?": _relation,
    "In the image provided, where is the {a} (annotated by the red box) with respect to the {b} (annotated by the blue box)?": _relation,
    "Considering the relative positions of the {a} and the {b}, on which side of the {b} is the {a} located?": _relation,
    "Which is closer to the camera, the {a} or the {b}?": _depth,
    "Of the {a} (highlighted by a red box) and the {b} (highlighted by a blue box), which object is closer to the camera "
    "taking this photo?": _depth,
    "Which object is closer to the {a}, the {b} or the {c}?": _distance,
    "Estimate the real-world distances between the objects. Of the {b} (highlighted by a blue box) and the {c} (highlighted by "
    "a green box), which is closer to the {a} (highlighted by a red box) in this image?": _distance,
}
"""SAT's forms of questions, made of the words of CV-Bench."""
TEST: Mapping[str, Kind] = {
    "How many {plural} are in the image?": _count,
    "Considering the relative positions of the {a} (annotated by the red box) and the {b} (annotated by the blue box) in the image "
    "provided, where is the {a} located with respect to the {b}?": _relation,
    "Which object is closer to the camera taking this photo, the {a} (highlighted by a red box) or the {b} (highlighted by a blue "
    "box)?": _depth,
    "Estimate the real-world distances between objects in this image. Which object is closer to the {a} (highlighted by a red box), "
    "the {b} (highlighted by a blue box) or the {c} (highlighted by a green box)?": _distance,
}
"""CV-Bench's questions."""


def _write(rows: Sequence[Item], split: str, options: Options, folder: Path) -> None:
    if split == "train":
        write_hub_table(folder / "SAT_train.parquet", SAT, [row.cells for row in rows])
        return
    for form in SOURCES:
        if of_form := [row.cells for row in rows if row.cells["type"] == form]:
            write_hub_table(folder / f"test_{form.lower()}.parquet", CVBENCH, of_form)


SYNTHETIC = Synthetic(
    templates={
        "train": {wording: partial(_train, kind, wording) for wording, kind in TRAIN.items()},
        "test": {wording: partial(_test, kind, wording) for wording, kind in TEST.items()},
    },
    write=_write,
    thought=_think,
)
