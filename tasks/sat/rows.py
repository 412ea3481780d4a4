"""The rows of SAT and of CV-Bench, and the layouts in which both are published."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from vlrft.data import (
    Cells,
    Defect,
    Layout,
    Layouts,
    PictureFinder,
    Row,
    Source,
    has_tables,
    number_rows,
    parse_picture,
    read_row,
    row_name,
)
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
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""
    form: Literal["chat", "base"] = "chat"
    """base: plain text without a chat template, for a model that was not instruction-tuned, such as Qwen2-VL-2B."""
    rows: Positive | None = 15_000
    """The number of SAT's first rows, including those with two images; None: all. Used when the data are prepared: a
    prepared folder keeps its rows, whatever is set here later."""
    images: Literal["one", "any"] = "one"
    """one: rows of SAT with two images are left out, as published; any: they are used. SAT's own test is always whole."""
    seed: Seed = 0
    """Shuffles SAT's options, of which the right one comes first in the raw data. Used when the data are prepared: a
    prepared folder keeps its order, whatever is set here later."""


def read(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    """The rows of a split, in the file's order. A row of SAT is recognised by its column `correct_answer`; those of its own
    test come last, and are left out next to CV-Bench's."""
    limit = options.rows if split == "train" else None
    finder = PictureFinder(source, split)
    names: set[str] = set()  # of CV-Bench's rows
    own_test: list[tuple[str, Cells]] = []
    for number, cells in number_rows(source.rows(split)):
        if limit is not None and number >= limit:
            return
        name = row_name(cells, "idx", f"{split}/{number}")
        if split == "train":
            yield read_row(name, partial(_read_sat, cells, source, split, name, options))
            continue
        if "correct_answer" in cells:
            own_test.append((name, cells))
            continue
        if name in names:  # the index may begin again in the second of two tables
            name = f"{row_name(cells, 'type', 'again')}/{name}"
        names.add(name)
        yield read_row(name, partial(_read_cvbench, cells, finder, f"cvbench/{name}"))
    for name, cells in own_test:
        yield (
            Defect(id=name, reason="question of SAT's own test next to CV-Bench", intended=True)
            if names
            else read_row(name, partial(_read_sat, cells, source, split, name, options))
        )


LAYOUTS = Layouts(
    (
        Layout(
            name="test_2d and test_3d tables with idx, task, image, question, choices and answer, or test.parquet (the hub's "
            "nyu-visionx/CV-Bench; with jsonl alone also img/, which its build_img.py makes), or SAT_test.parquet",
            found=has_tables,
            read=read,
            splits=("test",),
        ),
        Layout(
            name="SAT_train.parquet with image_bytes, question, answers and correct_answer (the hub's array/SAT)",
            found=has_tables,
            read=read,
            splits=("train",),
        ),
    )
)


def _read_sat(
    cells: Cells, source: Source, split: str, name: str, options: Options
) -> Row | Defect:
    images = cells["image_bytes"]
    images = list(images) if isinstance(images, list | tuple) else [images]
    if len(images) > 1 and split == "train" and options.images == "one":
        return Defect(id=name, reason="more than one image", intended=True)
    choices = shuffle_choices(_parse_list(cells["answers"]), name, options)
    answer = _one_line(cells["correct_answer"])
    _check_options(choices, answer)
    kind = cells.get("question_type") if split == "test" else None
    return Row(
        id=name,
        question=_one_line(cells["question"]),
        answer=answer,
        pictures=tuple(parse_picture(image, source, name) for image in images or [None]),
        tags={} if kind is None else {"question type": _one_line(kind)},
        info={"split": "train", "choices": choices},  # its own test is asked as its training
    )


def shuffle_choices(choices: Sequence[str], name: str, options: Options) -> list[str]:
    """The options of a row in the order in which they are asked."""
    order = list(choices)
    random.Random(f"sat {options.seed} {name}").shuffle(order)
    return order


def _read_cvbench(cells: Cells, finder: PictureFinder, name: str) -> Row:
    choices = _parse_list(cells["choices"])
    letter = str(cells["answer"]).strip().strip("()")
    if letter not in LETTERS[: len(choices)] or len(letter) != 1:
        raise DataError(f"answer {cells['answer']!r} is none of {len(choices)} options")
    answer = choices[LETTERS.index(letter)]
    _check_options(choices, answer)
    image = cells["image"] if cells.get("image") is not None else cells["filename"]
    return Row(
        id=name,
        question=_one_line(cells["question"]),
        answer=answer,
        pictures=(finder.find(image, name),),
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
