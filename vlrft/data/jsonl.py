"""JSON lines: appended rows, rows read back, and files replaced atomically."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ENCODING = "utf-8"
# A text may hold half a surrogate pair, which UTF-8 cannot; written as \udXXX it is JSON's own escape.
ERRORS = "backslashreplace"


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends one JSON object a line. NaN and infinity become null, so that any JSON reader takes the file; a value that
    JSON has no form for, such as a gold answer of a class of its own, is written as its text."""
    with path.open("a", encoding=ENCODING, errors=ERRORS) as file:
        for row in rows:
            file.write(json.dumps(plain(row), ensure_ascii=False, default=str) + "\n")


def whole_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every complete line with the object it holds; a last line that a killed writer left unfinished is skipped."""
    for line in path.read_bytes().split(b"\n"):  # not splitlines: texts hold other line breaks
        try:
            row = json.loads(line)
        except ValueError:
            continue
        yield line, row


def cut(path: Path, step: int) -> None:
    """Removes the lines of later steps than `step`, and an unfinished line."""
    if path.exists():
        kept = [line + b"\n" for line, row in whole_lines(path) if row["step"] <= step]
        replace(path, b"".join(kept))


def replace(path: Path, content: bytes) -> None:
    """Replaces a file atomically: it holds its old content or the new one, even if the writer is killed."""
    draft = path.with_name(f".{path.name}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def plain(value: Any) -> Any:
    """The value in JSON's types: arrays as lists, tuples as lists, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
