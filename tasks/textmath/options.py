"""Options of the pack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from vlrft.schema.ranges import Natural

from .sets import SETS

FIVE = ("aime24", "amc_83", "math500", "minerva", "olympiadbench")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which sets, where they are, and which prompt."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    train: str = "gsm8k"
    """The set that is trained on."""
    test: tuple[str, ...] = FIVE
    """With several sets, metrics are given for each set and for their mean."""
    data: str | None = None
    """A folder or archive with the sets' tables, a copy of one set's repository, a table, or a hub id; each set from its own
    hub repository unless given."""
    prompt: Literal[
        "clean", "short", "qwen_math", "r1", "none", "r1d", "open_rs", "lighteval", "verl"
    ] = "clean"
    """clean: thoughts and an answer tag; short: the tag alone; the others as published (r1 and none are plain text without
    a chat template)."""
    levels: tuple[Natural, Natural] | None = None
    """The lowest and the highest difficulty, such as MATH's `Level 3` to `Level 5`; all unless given."""

    def __post_init__(self) -> None:
        unknown = [name for name in (self.train, *self.test) if name not in SETS]
        if unknown or not self.test:
            raise ValueError(f"unknown set {unknown or '()'}; known sets: {', '.join(SETS)}")
        if self.levels is not None and self.levels[0] > self.levels[1]:
            raise ValueError(f"levels {self.levels}: the lowest comes first")

    def sets(self, split: str) -> tuple[str, ...]:
        return (self.train,) if split == "train" else self.test
