"""Geometry3K: plane geometry with a diagram, numbers and surds as answers (2,101 train, 601 test).

Raw forms: the hub's `hiyouga/geometry3k` (images, problem with `<image>`, answer), and InterGPS' folders `SPLIT/NUMBER/`
with data.json and img_diagram.png, whose gold answer is the value of the right choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from vlrft.data import (
    Dataset,
    Defect,
    Row,
    Source,
    parse_json,
    parse_picture,
    read_file,
    read_prompt,
    read_qa_rows,
    read_row,
    split_at_images,
    user_sample,
)
from vlrft.schema import Sample, Task

MARK = "<image>"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; the hub's dataset unless given."""
    prompt: Literal["clean", "released"] = "clean"
    """released: asks for a box (EasyR1, GMPO); clean: for an answer tag."""


def read(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    """The rows of InterGPS' folders if the source has them, else of a table."""
    folders = [n for n in source.names() if n.endswith("/data.json") and _is_of_split(n, split)]
    return (
        _read_folders(source, split, folders)
        if folders
        else read_qa_rows(source, split, images_required=True)
    )


def _is_of_split(name: str, split: str) -> bool:
    folders = {"validation", "val"} if split == "validation" else {split}
    return PurePosixPath(name).parent.parent.name in folders


def _read_folders(source: Source, split: str, names: list[str]) -> Iterator[Row | Defect]:
    def read(name: str, folder: PurePosixPath, number: str) -> Row:
        cells = parse_json(read_file(source, name).decode("utf-8"), name)
        return Row(
            id=number,
            question=MARK + cells["problem_text"],
            answer=right_choice(cells),
            pictures=(parse_picture(str(folder / "img_diagram.png"), source, number),),
            info={"split": split},
        )

    for name in sorted(names, key=lambda n: (len(n), n)):
        folder = PurePosixPath(name).parent
        number = f"{split}/{folder.name}"
        yield read_row(number, partial(read, name, folder, number))


def right_choice(cells: Mapping[str, Any]) -> str:
    """The value of the choice with the gold letter. Raises KeyError, or ValueError if there is no such choice."""
    letter, choices = cells["answer"], cells["choices"]
    if letter not in list("ABCDEFGH"[: len(choices)]):
        raise ValueError(f"gold answer {letter!r} is none of {len(choices)} choices")
    return str(choices["ABCDEFGH".index(letter)])


def sample(row: Row, options: Options) -> Sample:
    question = row.question if MARK in row.question else MARK * len(row.pictures) + row.question
    text = read_prompt(__file__, options.prompt).replace("{question}", question)
    form = {"form": "boxed"} if options.prompt == "released" else {}
    return user_sample(replace(row, tags={**row.tags, **form}), split_at_images(text))


def gold(sample: Sample) -> str:
    if sample.tags.get("form") == "boxed":
        return f"<think></think>\\boxed{{{sample.answer}}}"
    return f"<think></think><answer>{sample.answer}</answer>"


task = Task(
    name="geometry3k",
    doc="Geometry3K: plane geometry with a diagram (2,101 train, 601 test).",
    options=Options,
    splits=("train", "validation", "test"),
    load=Dataset(
        read=read,
        sample=sample,
        sources=dict.fromkeys(("train", "validation", "test"), "hiyouga/geometry3k"),
    ),
    rewards={"math_answer": 0.9, "format": 0.1},
    graders={"strict": ("math_answer",), "official": ("math_answer.mathruler",)},
    gold=gold,
)
