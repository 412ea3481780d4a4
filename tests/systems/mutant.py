"""A row of the catalogue with one mistake, and the check that rejects it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.systems.row import Row


@dataclass(frozen=True)
class Mutant:
    """The check, what is wrong in words, and how: other fields of the row's entry, or a change of what its config makes."""

    check: Callable[[Row], None]
    wrong: str
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    change: Callable[[Row], Row] | None = None

    def row(self, number: int, folder: Path) -> Row:
        """The wrong row."""
        wrong = Row.of(number, folder, self.changes)
        return wrong if self.change is None else self.change(wrong)
