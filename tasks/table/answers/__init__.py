"""The kinds of gold answers: each file of this folder defines `KIND`, or several as a tuple (`tasks/table/kind.py`)."""

from __future__ import annotations

from ..kind import AnswerKind
from ..registry import find_objects


def kinds() -> dict[str, AnswerKind]:
    """Name -> kind."""
    return {kind.name: kind for kind in find_objects(__name__, "KIND")}
