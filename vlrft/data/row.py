"""A row of a dataset in the form common to all packs: a question with its answer and pictures, before its prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An encoded image (PNG, JPEG, …), read when it is needed."""

    name: str  # of the file, or of the cell that contains it
    read: Callable[[], bytes]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question. All fields but the pictures can be written as JSON."""

    id: str
    question: str
    answer: Any
    pictures: tuple[Picture, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # read by the pack alone


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A row that is left out, with the reason. `intended`: left out by the dataset's own rules (a duplicate, a second
    image), so that loading may continue."""

    id: str
    reason: str  # the same words for the same kind of defect: reports count them
    detail: str = ""
    intended: bool = False
