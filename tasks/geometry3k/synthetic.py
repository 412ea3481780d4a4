"""Synthetic diagrams with their numbers in the picture alone, and answers that are computed: numbers and surds, as in the hub's
table. Each split asks in sentences of its own, made of the words of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.data import Draw, Synthetic, write_hub_table

from ..geoqa.figures import Style
from .problems import KINDS, Kind

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS = {
    "images": "images",
    "problem": "string",
    "answer": "string",
    "id": "int64",
    "choices": "strings",
    "ground_truth": "string",
}
LETTERS = "ABCD"
TURN = 3  # degrees
STYLE = Style(
    size=(168, 140),
    margin=27,
    letter=0,
    number=22,
    bold=0.8,
    line=2.5,
    paper="#7b7568",
    ink="white",
)
"""For a small policy: large, and chalk on a board of the colour that the image processor makes 0. White paper becomes a large number,
beside which a policy with random weights does not see the ink."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A diagram, its question and its four choices."""

    image: Image
    question: str
    choices: Sequence[str]
    right: int
    index: int
    thought: str

    def cells(self) -> Mapping[str, Any]:
        """The row of the hub's table."""
        return {
            "images": [self.image],
            "problem": f"<image>{self.question}",
            "answer": self.choices[self.right],
            "id": self.index,
            "choices": self.choices,
            "ground_truth": LETTERS[self.right],
        }


WORDINGS: Mapping[str, Sequence[str]] = {
    "train": (
        "Find $x$.",
        "What is $x$?",
        "Find $x$ in the figure.",
        "What is the value of $x$?",
        "In the figure, what is $x$?",
        "In the figure above, find $x$.",
        "What is the value of $x$ in the figure above?",
    ),
    "validation": ("Find the value of $x$ in the figure.", "In the figure, find $x$."),
    "test": ("Find the value of $x$.", "What is $x$ in the figure?", "In the figure above, what is the value of $x$?"),
}  # fmt: skip


def _make(kind: Kind, wording: str, draw: Draw) -> Item:
    problem = kind(draw.rng)
    choices = [problem.answer, *problem.wrong]
    draw.rng.shuffle(choices)
    return Item(
        image=problem.figure.turned(draw.rng, TURN).draw(STYLE),
        question=wording,
        choices=choices,
        right=choices.index(problem.answer),
        index=draw.index,
        thought=problem.thought,
    )


def _write(rows: Sequence[Item], split: str, options: Any, folder: Path) -> None:
    cells = [row.cells() for row in rows]
    write_hub_table(folder / f"data/{split}-00000-of-00001.parquet", COLUMNS, cells)


SYNTHETIC = Synthetic(
    templates={
        split: {
            f"{wording} ({kind.__name__})": partial(_make, kind, wording)
            for kind in KINDS
            for wording in wordings
        }
        for split, wordings in WORDINGS.items()
    },
    write=_write,
    thought=lambda item, index, split, options: (str(item.index), item.thought),
)
