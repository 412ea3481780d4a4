"""Files of a run: its logs and its summary, and images named by their content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.config.renamed import migrate_metrics
from vlrft.data.atomic import naming, write_atomically
from vlrft.data.jsonl import ENCODING, ERRORS, read_lines, to_json
from vlrft.reporting.run_folder.names import LOGS, METRICS, SUMMARY
from vlrft.schema.errors import StoredFileError
from vlrft.vision.images import upright_rgb

if TYPE_CHECKING:
    from PIL.Image import Image


def read_summary(run: Path, *needed: str) -> dict[str, Any] | None:
    """The content of summary.json; None where there is none. `needed`: keys that it must have.

    Raises StoredFileError for a file that no run wrote so.
    """
    path = run / SUMMARY
    if not path.exists():
        return None
    try:
        summary: Any = json.loads(path.read_text(ENCODING))
        if all(key in summary for key in needed) and _is_summary(summary):
            content: dict[str, Any] = summary
            return content
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise StoredFileError(
        f"{path}: not as a run writes it; put it back, or delete it: the table of the report is then without the "
        "evaluations until now"
    )


def _is_summary(summary: dict[str, Any]) -> bool:
    """Whether times and evaluations have the form that the report and a resumed run read."""
    numbers = [*summary.get("seconds", {}).values()]
    for evaluation in summary.get("evals", []):
        numbers.append(evaluation["step"])
        if not isinstance(evaluation["stage"], str) or not isinstance(evaluation["split"], str):
            return False
        for score in evaluation["scores"].values():
            numbers += [score["correct"], score["n"], score["score"], *score["ci"]]
    return all(isinstance(number, int | float) for number in numbers if number is not None)


def write_summary(run: Path, summary: Mapping[str, Any]) -> None:
    """Replaces summary.json atomically."""
    write_atomically(run / SUMMARY, (json.dumps(to_json(summary), indent=1) + "\n").encode())


def read_log(run: Path, name: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines of one of LOGS with their rows; none where it does not exist. Raises StoredFileError for a line of something
    else."""
    path = run / name
    return read_lines(path, LOGS[name]) if path.is_file() else iter(())


def drop_later_steps(run: Path, step: int) -> None:
    """Removes the lines of steps after `step`, and incomplete last lines, from all logs; changes none if one of them has
    a line that no run wrote (StoredFileError)."""
    kept = {
        name: [line + b"\n" for line, row in read_log(run, name) if row["step"] <= step]
        for name in LOGS
        if (run / name).exists()
    }
    for name, lines in kept.items():
        write_atomically(run / name, b"".join(lines))


def missing_steps(run: Path, last: int) -> str:
    """The steps from 1 to `last` of which metrics.jsonl has no row, as `1, 3 to 5`; empty where it has all."""
    logged = {row["step"] for _, row in read_log(run, METRICS)}
    missing = sorted(set(range(1, last + 1)) - logged)
    starts = [step for k, step in enumerate(missing) if missing[k - 1 : k] != [step - 1]]
    ends = [step for k, step in enumerate(missing) if missing[k + 1 : k + 2] != [step + 1]]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in pairs)


def rename_metrics(run: Path) -> None:
    """Replaces the old names of metrics in a run's `metrics.jsonl`; a file without any is left untouched."""
    rows = [row for _, row in read_log(run, METRICS)]
    renamed = [migrate_metrics(row) for row in rows]
    if any(list(old) != list(new) for old, new in zip(rows, renamed, strict=True)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in renamed)
        write_atomically(run / METRICS, text.encode(ENCODING, ERRORS))


class ImageStore:
    """A folder of PNG images, each saved once under a name made of its content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, image: Image) -> str:
        """Saves the image as the policy sees it, unless the folder has it; returns its path relative to the run."""
        image = upright_rgb(image)
        digest = hashlib.sha256(f"{image.mode}{image.size}".encode() + image.tobytes())
        name = f"{digest.hexdigest()[:16]}.png"
        if not (self.folder / name).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = (
                self.folder / f".{os.getpid()}_{name}"
            )  # another rank may save it at the same time
            with naming(self.folder / name):
                image.save(draft, format="PNG")
                os.replace(draft, self.folder / name)
        return f"{self.folder.name}/{name}"
