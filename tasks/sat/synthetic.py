"""Synthetic rows as published files: the training rows as SAT's table, the test rows as CV-Bench's two, with its boxes around the
things that are asked about and its sources, of which its score is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vlrft.data import Draw, Synthetic, write_hub_table

from .questions import TEST, TRAIN, Kind
from .rows import LETTERS, Options, shuffle_choices

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
    """The row's id, and its thought: the things seen, the answer, then whether each option is that."""
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
    return name, f"{item.seen}. {answer}. {', '.join(verdicts)}"


def _write(rows: Sequence[Item], split: str, options: Options, folder: Path) -> None:
    if split == "train":
        write_hub_table(folder / "SAT_train.parquet", SAT, [row.cells for row in rows])
        return
    for form in SOURCES:
        if of_form := [row.cells for row in rows if row.cells["type"] == form]:
            write_hub_table(folder / f"test_{form.lower()}.parquet", CVBENCH, of_form)


def _templates(
    make: Callable[[Kind, str, Draw], Item], wordings: Mapping[Kind, Sequence[str]]
) -> Mapping[str, Callable[[Draw], Item]]:
    return {text: partial(make, kind, text) for kind, texts in wordings.items() for text in texts}


SYNTHETIC = Synthetic(
    templates={"train": _templates(_train, TRAIN), "test": _templates(_test, TEST)},
    write=_write,
    thought=_think,
)
