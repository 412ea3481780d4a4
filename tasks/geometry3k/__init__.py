"""Geometry3K: plane geometry with a diagram, numbers and surds as answers (2,101 train, 601 test).

Raw forms: the hub's `hiyouga/geometry3k` (images, problem with `<image>`, answer; since 2025 also id, choices and
ground_truth, the letter of the right choice), and InterGPS' folders `SPLIT/NUMBER/` with data.json and img_diagram.png. The
gold answer is always the value of the right choice: the prompt lists no choices.
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
    Layout,
    Layouts,
    Row,
    Source,
    has_tables,
    parse_json,
    parse_picture,
    read_file,
    read_prompt,
    read_qa_rows,
    read_row,
    split_at_images,
    strip_answer_tag,
    user_sample,
)
from vlrft.schema import Sample, Task

from .synthetic import SYNTHETIC

MARK = "<image>"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The source of the data, and the prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    data: str | None = None
    """A folder, zip, table or hub id; the hub's dataset unless given."""
    prompt: Literal["clean", "released"] = "clean"
    """released: asks for a box (EasyR1, GMPO); clean: for an answer tag."""


def _has_folders(source: Source, split: str, options: Options) -> bool:
    return bool(_folders(source, split))


def _folders(source: Source, split: str) -> list[str]:
    names = {"validation", "val"} if split == "validation" else {split}
    paths = [PurePosixPath(n) for n in source.names() if n.endswith("/data.json")]
    return [path.as_posix() for path in paths if path.parent.parent.name in names]


def _read_table(source: Source, split: str, options: Options) -> Iterable[Row | Defect]:
    return read_qa_rows(source, split, answer=_gold_value, images_required=True)


def _gold_value(cells: Mapping[str, Any]) -> Any:
    """The value that is asked for: the column `answer`; `ground_truth` has the letter of the right choice. Raises KeyError
    without either."""
    if cells.get("answer") is not None:
        return strip_answer_tag(cells["answer"])
    if cells.get("ground_truth") is not None and cells.get("choices"):
        return right_choice({"answer": cells["ground_truth"], "choices": cells["choices"]})
    for column in ("solution", "ground_truth"):
        if cells.get(column) is not None:
            return strip_answer_tag(cells[column])
    raise KeyError("answer")


def _read_folders(source: Source, split: str, options: Options) -> Iterator[Row | Defect]:
    names = _folders(source, split)

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


LAYOUTS = Layouts(
    (
        Layout(
            name="SPLIT/NUMBER/data.json and img_diagram.png (InterGPS' data/geometry3k)",
            found=_has_folders,
            read=_read_folders,
        ),
        Layout(
            name="tables with images, problem and answer (the hub's hiyouga/geometry3k: data/SPLIT-*.parquet)",
            found=has_tables,
            read=_read_table,
        ),
    )
)


def sample(row: Row, options: Options) -> Sample:
    question = row.question if MARK in row.question else MARK * len(row.pictures) + row.question
    text = read_prompt(__file__, options.prompt).replace("{question}", question)
    form = "boxed" if options.prompt == "released" else "tagged"
    return user_sample(replace(row, tags={**row.tags, "form": form}), split_at_images(text))


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
        read=LAYOUTS,
        sample=sample,
        sources=dict.fromkeys(("train", "validation", "test"), "hiyouga/geometry3k"),
        synthetic=SYNTHETIC,
    ),
    rewards={"math_answer": 0.9, "format": 0.1},
    graders={"strict": ("math_answer",), "official": ("math_answer.mathruler",)},
    gold=gold,
)
