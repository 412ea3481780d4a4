"""Words to repeat and things to find: before its games, a policy of random weights learns here to copy from its prompt.

The words are those of ALFWorld's games, drawn independently of each other, so that nothing but copying helps. `repeat`: a list, again
(induction: Olsson et al., 2022, In-context Learning and Induction Heads). `find`: the thing that the task asks for is taken where the
last sight shows it, with a thought as in the gold answers of `options.thoughts`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vlrft.tasks.alfworld.families import OBJECTS, ROOMS

from vlrft import Message, Sample, Task

THINGS, PLACES = (
    sorted({kind.lower() for kinds in rooms.values() for kind in kinds})
    for rooms in (OBJECTS, ROOMS)
)
NUMBERS = [str(number) for number in range(1, 13)]
SENTENCES = """Task: put a some an in on to with the it them. You are in the middle of a room. Looking quickly around you, you see nothing.
Answer <think></think><action>a command</action> <think></think><action>look</action> <think></think><action>go to open close take from move
You arrive at On the The is closed. open. You open the In it, you see and You close You pick up from You move Nothing happens."""
WORDS = (sorted({*THINGS, *PLACES}), NUMBERS, sorted(set(SENTENCES.split())))
WEIGHTS = (1, 1, 2)

Kind = Literal["repeat", "find"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The samples."""

    kinds: tuple[Kind, ...] = ("repeat", "find")
    """What is asked for, in turn."""
    train: int = 32_768
    """Samples of the training split."""
    test: int = 128
    """Samples of the test split."""
    words: tuple[int, int] = (8, 48)
    """Fewest and most words of a list."""
    sights: tuple[int, int] = (1, 4)
    """Fewest and most places where things are seen."""


def load(split: str, options: Options) -> list[Sample]:
    count = options.train if split == "train" else options.test
    return [_draw(split, number, options) for number in range(count)]


def _draw(split: str, number: int, options: Options) -> Sample:
    rng = random.Random(f"copying {split} {number}")
    kind = options.kinds[number % len(options.kinds)]
    prompt, answer = DRAW[kind](rng, options)
    return Sample(
        id=f"{split}/{number}",
        messages=(Message(role="user", content=(prompt,)),),
        answer=answer,
        tags={"kind": kind},
    )


def _draw_list(rng: random.Random, options: Options) -> tuple[str, str]:
    kinds = rng.choices(WORDS, WEIGHTS, k=rng.randint(*options.words))
    text = " ".join(rng.choice(kind) for kind in kinds)
    return text, text


def _draw_sights(rng: random.Random, options: Options) -> tuple[str, str]:
    """The thing is in the last sight, or in none."""
    thing, *others = rng.sample(THINGS, len(THINGS))
    sights = [
        [f"{rng.choice(others)} {rng.choice(NUMBERS)}" for _ in range(rng.randint(1, 6))]
        for _ in range(rng.randint(*options.sights))
    ]
    places = [f"{rng.choice(PLACES)} {rng.choice(NUMBERS)}" for _ in sights]
    article = rng.choice(("a", "some"))
    lines = [f"Task: put {article} {thing} in {rng.choice(PLACES)}."]
    answer = f"<think>{thing}</think><action>look</action>"
    if rng.random() < 0.5:
        found = f"{thing} {rng.choice(NUMBERS)}"
        sights[-1][rng.randrange(len(sights[-1]))] = found
        answer = f"<think>{found}</think><action>take {found} from {places[-1]}</action>"
    for place, sight in zip(places, sights, strict=True):
        named = [f"a {thing}" for thing in sight]
        listed = ", ".join(named) if len(named) < 2 else f"{', '.join(named[:-1])}, and {named[-1]}"
        lines.append(f"On the {place}, you see {listed}.")
    return "\n".join(lines), answer


DRAW: dict[Kind, Callable[[random.Random, Options], tuple[str, str]]] = {
    "repeat": _draw_list,
    "find": _draw_sights,
}


def copied(completion: str, sample: Sample) -> float:
    """1.0 for the answer, word for word."""
    return float(completion == sample.answer)


task = Task(
    name="copying",
    doc="Repeat a list of words; find a thing.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"benchmarks.learning.copying:copied": 1.0},
    graders={"strict": ("benchmarks.learning.copying:copied",)},
    gold=lambda sample: sample.answer,
)
