"""The sample of a row: its prompt, filled in."""

from __future__ import annotations

from vlrft.data import Row, fill_prompt, read_prompt, split_at_images, user_sample
from vlrft.schema import Sample

from .answers import kinds
from .options import Options

MARK = "<image>"


def sample(row: Row, options: Options) -> Sample:
    kind = kinds()[row.info["kind"]]
    question = row.question if MARK in row.question else MARK * len(row.pictures) + row.question
    text = fill_prompt(read_prompt(__file__, kind.prompt), question=question)
    return user_sample(row, split_at_images(text))


def gold(sample: Sample) -> str:
    """A completion with full marks."""
    return f"<think></think><answer>{kinds()[sample.info['kind']].write(sample)}</answer>"
