"""The sample of a row: its messages, filled in, and its gold completion."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from vlrft.data import Row, read_prompt, split_at_images
from vlrft.schema import DataError, Message, Sample
from vlrft.vision.box_options import box_frame, unit_text

from .answers import kinds
from .kind import AnswerKind
from .messages import MARK
from .options import Options
from .templates import fill
from .texts import read_text


def sample(row: Row, options: Options) -> Sample:
    """Raises DataError for a row that was prepared with other options."""
    kind = _kind(row, options)
    if options.thought is not None and not row.thought:
        raise DataError(
            f"sample {row.id}: the prepared rows have no thoughts; prepare them with options.thought={options.thought}"
        )
    info = _add_frame(row, kind, options)
    own = read_text(options.prompt, "prompt")
    template = own or read_prompt(__file__, kind.prompt(row))
    context = [(role, text) for role, text in row.info.get("context", ())]
    system = read_text(options.system, "system")
    if system is not None:
        context = [("system", system), *(turn for turn in context if turn[0] != "system")]
    missing = len(row.pictures) - sum(
        t.count(MARK) for t in (row.question, *(t for _, t in context))
    )
    marks = MARK * len(row.pictures) if missing == len(row.pictures) else ""
    if MARK in template:
        marks = ""
    try:
        text = fill(template, _values(row, info, marks + row.question))
    except KeyError as e:
        raise DataError(
            f"sample {row.id}: the prompt names {e}, which the prepared rows do not have; prepare them with this prompt"
        ) from None
    if marks and MARK not in text:
        text = marks + text
    turns: list[tuple[Any, str]] = [*context, ("user", text)]
    return Sample(
        id=row.id,
        messages=tuple(Message(role=role, content=split_at_images(t)) for role, t in turns),
        answer=row.answer,
        tags={**row.tags, **_form(kind, "".join(t for _, t in turns))},
        info=info,
    )


def _kind(row: Row, options: Options) -> AnswerKind:
    name = row.info.get("kind")
    if name not in kinds():
        raise DataError(f"sample {row.id}: a row of another task; prepare its data with task table")
    if options.answer not in (None, name):
        raise DataError(
            f"sample {row.id}: prepared with options.answer={name}; prepare the data again for {options.answer}"
        )
    return kinds()[name]


def _add_frame(row: Row, kind: AnswerKind, options: Options) -> Mapping[str, Any]:
    """The row's info; for boxes in pixels of the resized picture, with its frame."""
    if options.boxes != "resized" or not kind.resized:
        return row.info
    if "size" not in row.info:
        raise DataError(
            f"sample {row.id}: prepared without the size of its picture; prepare the data with options.boxes=resized"
        )
    return {**row.info, "frame": list(box_frame(options, row.info["size"], row.id) or ())}


def _values(row: Row, info: Mapping[str, Any], question: str) -> dict[str, str]:
    choices = row.tags.get("options", "").splitlines()
    lettered = (f"({a}) {text}" for a, text in zip(ascii_uppercase, choices, strict=False))
    return {
        **info.get("columns", {}),
        "question": question,
        "choices": "\n".join(lettered),
        "classes": info.get("classes", ""),
        "unit": unit_text(info.get("frame")),
    }


def _form(kind: AnswerKind, prompt: str) -> dict[str, str]:
    """The tag of a prompt that asks for a box instead of an answer tag, which the format reward reads."""
    if not kind.boxed or "<answer>" in prompt or "\\boxed" not in prompt:
        return {}
    return {"form": "boxed" if "<think>" in prompt else "box"}


def gold(sample: Sample) -> str:
    """A completion with full marks."""
    answer = kinds()[sample.info["kind"]].write(sample)
    form = sample.tags.get("form")
    if form is None:
        return f"<think></think><answer>{answer}</answer>"
    return f"{'<think></think>' if form == 'boxed' else ''}\\boxed{{{answer}}}"
