"""JSON lines: appending rows, reading them, and dropping some."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vlrft.data.atomic import write_atomically

ENCODING = "utf-8"
# A text may contain half a surrogate pair, which UTF-8 cannot encode; \udXXX is its escape in JSON.
ERRORS = "backslashreplace"


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends one JSON object a line. NaN and infinity become null, so that any JSON reader accepts the file; a value
    without a form in JSON, such as a gold answer of some class, is written as its `str`."""
    with path.open("a", encoding=ENCODING, errors=ERRORS) as file:
        for row in rows:
            file.write(json.dumps(to_json(row), ensure_ascii=False, default=str) + "\n")


def read_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every complete line with its object; an incomplete last line, left by a killed writer, is skipped."""
    for line in path.read_bytes().split(b"\n"):  # not splitlines: texts contain other line breaks
        try:
            row = json.loads(line)
        except ValueError:
            continue
        yield line, row


def drop_later_steps(path: Path, step: int) -> None:
    """Removes the lines of steps after `step`, and an incomplete last line."""
    if path.exists():
        kept = [line + b"\n" for line, row in read_lines(path) if row["step"] <= step]
        write_atomically(path, b"".join(kept))


def to_json(value: Any) -> Any:
    """The value in JSON's types: arrays and tuples as lists, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
