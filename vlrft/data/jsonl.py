"""JSON lines: appending rows and reading them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vlrft.data.atomic import naming
from vlrft.schema.errors import StoredFileError

ENCODING = "utf-8"
# A text may contain half a surrogate pair, which UTF-8 cannot encode; \udXXX is its escape in JSON.
ERRORS = "backslashreplace"


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends one JSON object a line. NaN and infinity become null, so that any JSON reader accepts the file; a value
    without a form in JSON, such as a gold answer of some class, is written as its `str`."""
    with naming(path), path.open("a", encoding=ENCODING, errors=ERRORS) as file:
        for row in rows:
            file.write(json.dumps(to_json(row), ensure_ascii=False, default=str) + "\n")


def read_lines(
    path: Path, types: Mapping[str, type] = MappingProxyType({})
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every complete line with its object; an incomplete last line, left by a killed writer, is skipped, and so are empty
    lines. `types`: keys that each object has, with the types of their values.

    Raises StoredFileError, naming the line, for a complete line that is no such object.
    """
    lines = path.read_bytes().split(b"\n")  # not splitlines: texts contain other line breaks
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            if not line.strip() or number == len(lines):
                continue
            raise _line_error(path, number, "not a JSON object")
        for key, kind in types.items():
            if type(row.get(key)) is not kind:
                raise _line_error(
                    path, number, f"{key!r} is missing or not of type {kind.__name__}"
                )
        yield line, row


def _line_error(path: Path, number: int, problem: str) -> StoredFileError:
    hint = "remove the line" if number > 1 else "give a file of vlrft, or remove the line"
    return StoredFileError(f"{path}, line {number}: {problem}, so vlrft did not write it; {hint}")


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
