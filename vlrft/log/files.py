"""The files of a run: appended lines, an atomic summary, pictures by content."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image


def append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line. Python's NaN and infinity become null, so that any reader takes the file."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(_plain(row), ensure_ascii=False) + "\n")


def cut(path: Path, step: int) -> None:
    """Drops the lines after `step`, and a last line that a killed writer left unfinished."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["step"] <= step:
            kept.append(line + "\n")
    _replace(path, "".join(kept))


def read_summary(run: Path) -> dict[str, Any] | None:
    path = run / "summary.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_summary(run: Path, summary: Mapping[str, Any]) -> None:
    _replace(run / "summary.json", json.dumps(_plain(summary), indent=1) + "\n")


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
            image.save(self.folder / name)
        return f"{self.folder.name}/{name}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
