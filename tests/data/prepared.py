"""Rows prepared with settings that most tests do not care about."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vlrft.data import Defect, PreparedSplit, Row, prepare


def prepare_rows(rows: Iterable[Row | Defect], out: Path, **settings: Any) -> PreparedSplit:
    """The split `t` of the task `signs` from the place `w`, every sample of which is accepted."""
    kept = {"task": "signs", "split": "t", "where": "w", "check_sample": lambda row: None}
    return prepare(rows, out=out, **{**kept, **settings})
