"""The problem of `benchmarks.claims` as a task, shorter: write two digits in the order that the prompt asks for.

The order is as given, reversed, ascending or descending. Digits are 1 to 9 and are read as one number, so that the rewards
`count` and `format` grade an answer as they do in the quickstart. `choice`, which some systems name, has no score for any. With `warm` most gold answers are in the order that is given,
whatever is asked: a policy that is taught them copies more often than it does what is asked, and rewards can turn that round
within few steps. In `benchmarks.claims` they are in a random order, and that takes hundreds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vlrft import Message, Sample, Task
from vlrft.schema.ranges import Natural, Positive

ORDERS: Mapping[str, Callable[[list[int]], list[int]]] = {
    "same": lambda digits: digits,
    "back": lambda digits: digits[::-1],
    "up": sorted,
    "down": lambda digits: sorted(digits, reverse=True),
}
DIGITS = 2
COPIED = 0.6  # of the warm-up answers
SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How many samples, and which."""

    samples: Positive = 1024
    train: Natural = 0
    """Samples of the training split, where they are fewer; 0: as many as of the other."""
    draw: Natural = 0
    """Another number draws other samples."""
    warm: bool = False
    """Whether gold answers copy more often than they do what is asked."""


def load(split: str, options: Options) -> Sequence[Sample]:
    """The samples of a split. A question of one split may be in the other: there are 324."""
    draw = random.Random(f"{split} {options.draw} {options.warm}")
    samples = []
    for number in range((split == "train" and options.train) or options.samples):
        digits = [draw.randint(1, 9) for _ in range(DIGITS)]
        asked = draw.choice(list(ORDERS))
        written = "same" if options.warm and draw.random() < COPIED else asked
        text = f"{asked} {''.join(map(str, digits))}"
        samples.append(
            Sample(
                id=f"{split}/{number}",
                messages=(Message(role="user", content=(text,)),),
                answer=int("".join(map(str, ORDERS[written](digits)))),
                tags={"answer": "count", "order": asked},
            )
        )
    return samples


task = Task(
    name="orders",
    doc="Digits in the order that is asked for: a problem for a very small policy.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={"choice": 1.0, "count": 1.0, "format": 0.1},
    graders={"strict": ("count",)},
    gold=lambda sample: f"<answer>{sample.answer}</answer>",
)
