"""The rows of SAT and of CV-Bench."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from vlrft.data import Cells, Defect, Row, Source, number_rows, parse_picture, read_row, row_name
from vlrft.schema import DataError
from vlrft.schema.ranges import Positive, Seed

KINDS = ("Count", "Relation", "Depth", "Distance")
LETTERS = "ABCDEFGH"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, their number, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; SAT and CV-Bench on the hub unless given."""
    prompt: Literal["clean", "released"] = "clean"
    form: Literal["chat", "base"] = "chat"
    """base: plain text without a chat template, for a model that was not instruction-tuned, such as Qwen2-VL-2B."""
    rows: Positive | None = 15_000
    """The number of SAT's first rows, including those with two images; None: all. Used when the data are prepared: a
    prepared folder keeps its rows, whatever is set here later."""
    seed: Seed = 0
    """Shuffles SAT's options, of which the right one comes first in the raw data. Used when the data are prepared: a
    prepared folder keeps its order, whatever is set here later."""


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The rows of a split, in the file's order."""
    limit = options.rows if split == "train" else None
    for number, cells in number_rows(source.rows(split)):
        if limit is not None and number >= limit:
            return
        name = row_name(cells, "idx", f"{split}/{number}")
        yield read_row(name, partial(_read_row, cells, source, split, name, options.seed))


def _read_row(cells: Cells, source: Source, split: str, name: str, seed: int) -> Row | Defect:
    if split == "test":
        return _read_cvbench(cells, source, f"cvbench/{name}")
    return _read_sat(cells, source, name, seed)


def _read_sat(cells: Cells, source: Source, name: str, seed: int) -> Row | Defect:
    images = cells["image_bytes"]
    images = list(images) if isinstance(images, list | tuple) else [images]
    if len(images) > 1:
        return Defect(id=name, reason="more than one image", intended=True)
    choices = _parse_list(cells["answers"])
    answer = _one_line(cells["correct_answer"])
    random.Random(f"sat {seed} {name}").shuffle(choices)
    _check_options(choices, answer)
    return Row(
        id=name,
        question=_one_line(cells["question"]),
        answer=answer,
        pictures=(parse_picture(images[0] if images else None, source, name),),
        info={"split": "train", "choices": choices},
    )


def _read_cvbench(cells: Cells, source: Source, name: str) -> Row:
    choices = _parse_list(cells["choices"])
    letter = str(cells["answer"]).strip().strip("()")
    if letter not in LETTERS[: len(choices)] or len(letter) != 1:
        raise DataError(f"answer {cells['answer']!r} is none of {len(choices)} options")
    answer = choices[LETTERS.index(letter)]
    _check_options(choices, answer)
    return Row(
        id=name,
        question=_one_line(cells["question"]),
        answer=answer,
        pictures=(parse_picture(cells["image"], source, name),),
        tags={"kind": str(cells["task"]), "source": str(cells["source"])},
        info={"split": "test", "choices": choices, "prompt": str(cells["prompt"])},
    )


def _parse_list(cell: Any) -> list[str]:
    """A list of options, given as a list or as text: `['left', 'right']`, `[left, right]`."""
    if isinstance(cell, str):
        try:
            cell = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # deeply nested
            cell = cell.strip().removeprefix("[").removesuffix("]").split(", ")
    if not isinstance(cell, Sequence) or isinstance(cell, str):
        raise DataError(f"options {cell!r} are not a list")
    return [_one_line(text) for text in cell]


def _check_options(choices: Sequence[str], answer: str) -> None:
    if answer not in choices:
        raise DataError(f"answer {answer!r} is none of the options {list(choices)}")
    if len(set(choices)) < len(choices) or not all(choices) or len(choices) > len(LETTERS):
        raise DataError(f"options {list(choices)} are empty, too many or not all different")


def _one_line(text: Any) -> str:
    """The text in one line, as prompts list one option a line."""
    if not isinstance(text, str | int | float):
        raise DataError(f"expected a text, found {type(text).__name__}")
    return " ".join(str(text).split())
