"""Files of a run that are not JSON lines: its summary, and images named by their content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.config.renamed import migrate_metrics
from vlrft.data.atomic import write_atomically
from vlrft.data.jsonl import ENCODING, ERRORS, read_lines, to_json

if TYPE_CHECKING:
    from PIL.Image import Image


def read_summary(run: Path) -> dict[str, Any] | None:
    """The content of summary.json; None where there is none."""
    path = run / "summary.json"
    if not path.exists():
        return None
    summary: dict[str, Any] = json.loads(path.read_text(ENCODING))
    return summary


def write_summary(run: Path, summary: Mapping[str, Any]) -> None:
    """Replaces summary.json atomically."""
    write_atomically(run / "summary.json", (json.dumps(to_json(summary), indent=1) + "\n").encode())


def rename_metrics(path: Path) -> None:
    """Replaces the old names of metrics in a run's `metrics.jsonl`; a file without any is left untouched."""
    rows = [row for _, row in read_lines(path)] if path.exists() else []
    renamed = [migrate_metrics(row) for row in rows]
    if any(list(old) != list(new) for old, new in zip(rows, renamed, strict=True)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in renamed)
        write_atomically(path, text.encode(ENCODING, ERRORS))


class ImageStore:
    """A folder of PNG images, each saved once under a name made of its content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, image: Image) -> str:
        """Saves the image unless the folder has it; returns its path relative to the run."""
        digest = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes())
        name = f"{digest.hexdigest()[:16]}.png"
        if not (self.folder / name).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = (
                self.folder / f".{os.getpid()}_{name}"
            )  # another rank may save it at the same time
            image.save(draft, format="PNG")
            os.replace(draft, self.folder / name)
        return f"{self.folder.name}/{name}"
