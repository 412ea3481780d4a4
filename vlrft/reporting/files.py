"""The files of a run: appended lines, an atomic summary, pictures by content."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

ENCODING = "utf-8"
# A text may hold half a surrogate pair, which UTF-8 cannot; written as \udXXX it is JSON's own escape.
ERRORS = "backslashreplace"


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line. Python's NaN and infinity become null, so that any reader takes the file; a gold
    answer that JSON has no form for is written as its text."""
    with path.open("a", encoding=ENCODING, errors=ERRORS) as file:
        for row in rows:
            file.write(json.dumps(_plain(row), ensure_ascii=False, default=str) + "\n")


def whole_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every line with the object it holds; a last line that a killed writer left unfinished is not there."""
    for line in path.read_bytes().split(b"\n"):  # not splitlines: texts hold other line breaks
        try:
            row = json.loads(line)
        except ValueError:
            continue
        yield line, row


def cut(path: Path, step: int) -> None:
    """Drops the lines after `step`, and an unfinished one."""
    if path.exists():
        kept = [line + b"\n" for line, row in whole_lines(path) if row["step"] <= step]
        replace(path, b"".join(kept))


def read_summary(run: Path) -> dict[str, Any] | None:
    path = run / "summary.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(ENCODING))
    return found


def write_summary(run: Path, summary: Mapping[str, Any]) -> None:
    replace(run / "summary.json", (json.dumps(_plain(summary), indent=1) + "\n").encode())


class Pictures:
    """Images saved once each, as PNG named by their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, image: Image) -> str:
        """The image's path relative to the run."""
        digest = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes())
        name = f"{digest.hexdigest()[:16]}.png"
        if not (self.folder / name).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = self.folder / f".{os.getpid()}_{name}"  # another rank may keep it, too
            image.save(draft, format="PNG")
            os.replace(draft, self.folder / name)
        return f"{self.folder.name}/{name}"


def replace(path: Path, content: bytes) -> None:
    """Writes a file that is either as before or as asked, whenever the writer dies."""
    draft = path.with_name(f".{path.name}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
