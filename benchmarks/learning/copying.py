"""A list of words to repeat: before its games, a policy of random weights learns here to copy from its prompt.

The words are those of ALFWorld's games, half of them names and numbers, drawn independently of each other, so that nothing but
copying helps (induction: Olsson et al., 2022, In-context Learning and Induction Heads).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from vlrft.tasks.alfworld.families import OBJECTS, ROOMS

from vlrft import Message, Sample, Task

NAMES = sorted(
    {kind.lower() for rooms in (OBJECTS, ROOMS) for kinds in rooms.values() for kind in kinds}
)
NUMBERS = [str(number) for number in range(1, 13)]
SENTENCES = """Task: put a some an in on to with the it them. You are in the middle of a room. Looking quickly around you, you see nothing.
Answer <think></think><action>a command</action> <think></think><action>look</action> <think></think><action>go to open close take from move
You arrive at On the The is closed. open. You open the In it, you see and You close You pick up from You move Nothing happens."""
WORDS = (NAMES, NUMBERS, sorted(set(SENTENCES.split())))
WEIGHTS = (1, 1, 2)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The lists."""

    train: int = 16_384
    """Lists of the training split."""
    test: int = 64
    """Lists of the test split."""
    words: tuple[int, int] = (8, 48)
    """Fewest and most words of a list."""


def load(split: str, options: Options) -> list[Sample]:
    count = options.train if split == "train" else options.test
    return [_sample(f"{split}/{number}", options) for number in range(count)]


def _sample(name: str, options: Options) -> Sample:
    rng = random.Random(f"copying {name}")
    kinds = rng.choices(WORDS, WEIGHTS, k=rng.randint(*options.words))
    text = " ".join(rng.choice(kind) for kind in kinds)
    return Sample(id=name, messages=(Message(role="user", content=(text,)),), answer=text)


def copied(completion: str, sample: Sample) -> float:
    """1.0 for the list, word for word."""
    return float(completion == sample.answer)


task = Task(
    name="copying",
    doc="Repeat a list of words.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"benchmarks.learning.copying:copied": 1.0},
    graders={"strict": ("benchmarks.learning.copying:copied",)},
    gold=lambda sample: sample.answer,
)
