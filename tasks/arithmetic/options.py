"""Options of the questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from vlrft.schema.ranges import Range

from .lines import SMALLEST, SOLVED


@dataclass(frozen=True, kw_only=True)
class Options:
    """The numbers, and how many solved lines precede a question."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    largest: Annotated[int, Range(ge=SMALLEST + 8, le=200)] = 30
    """The numbers of a question are different, and from 2 to this."""
    shots: Annotated[int, Range(ge=0, le=len(SOLVED))] = 4
    """Solved lines before each question, the same before all. Without any, a model cannot know what to write."""
