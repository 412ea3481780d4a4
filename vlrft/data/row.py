"""A question as a pack understands it, before it is a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An encoded image (PNG, JPEG, …), read when it is needed."""

    name: str  # of the file, or of the cell that holds it
    read: Callable[[], bytes]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question. Everything but the pictures has a form in JSON."""

    id: str
    question: str
    answer: Any
    pictures: tuple[Picture, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what only the pack reads


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A row that is left out, and why. `intended`: by the data set's own rules (a duplicate, a second image), so that it
    is no reason to stop."""

    id: str
    reason: str  # the same words for the same kind: reports count them
    detail: str = ""
    intended: bool = False
