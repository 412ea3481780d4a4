"""The mark of a run's folder: a small file that says that a run has made the folder, or has been given it by hand.

The folder of a run from before the mark is known by its files: a resolved config, and logs or checkpoints of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlrft.data.atomic import write_atomically
from vlrft.reporting.run_folder.names import (
    CHECKPOINTS,
    CONFIG,
    EVALS,
    MARK,
    METRICS,
    STEP,
)
from vlrft.schema.errors import ConfigError
from vlrft.schema.file_hashes import MANIFEST

FORMAT = 1
ABOUT = "A folder of vlrft train. --overwrite removes the files of the run in it, and no others."
RESOLVED_KEYS = ("task", "policy", "stages", "rollout", "update", "eval", "seed")
"""Keys that every resolved config has had; one that people write states only some of them."""
MAX_BYTES = 1 << 20  # read of a file that may be anybody's


def is_run(folder: Path) -> bool:
    """Whether the folder is a run's. Raises ConfigError for a mark of a newer version."""
    mark = _read_json(folder / MARK)
    if mark is None or type(mark.get("format")) is not int:
        return has_resolved_config(folder) and has_run_logs(folder)
    if mark["format"] > FORMAT:
        raise ConfigError(
            [
                f"{folder}: its {MARK} has format {mark['format']}, from a newer version of vlrft; "
                f"this one reads up to {FORMAT}"
            ]
        )
    return True


def has_resolved_config(folder: Path) -> bool:
    """Whether config.yaml has the keys of a config that a run writes."""
    text = _read(folder / CONFIG)
    keys = set(re.findall(rb"^([a-z_]+):", text, re.MULTILINE))
    return keys >= {key.encode() for key in RESOLVED_KEYS}


def has_run_logs(folder: Path) -> bool:
    """Whether the folder has a step or an evaluation in a run's logs, or a checkpoint with its manifest."""
    rows = (_read_json(folder / name, first_line=True) for name in (METRICS, EVALS))
    if any(row is not None and {"stage", "step"} <= row.keys() for row in rows):
        return True
    manifests = (_read_json(path / MANIFEST) for path in _checkpoints(folder))
    return any(m is not None and {"step", "files"} <= m.keys() for m in manifests)


def has_steps(folder: Path) -> bool:
    """Whether a run has done a step: one is in its metrics, or there is a checkpoint, whatever its state."""
    return bool(_read(folder / METRICS)) or any((folder / CHECKPOINTS).glob("*"))


def write_mark(folder: Path) -> None:
    """Marks the folder as a run's."""
    content = {"format": FORMAT, "about": ABOUT}
    write_atomically(folder / MARK, (json.dumps(content, indent=1) + "\n").encode())


def how_to_mark(folder: Path) -> str:
    """A command that marks the folder."""
    return f"echo '{{\"format\": {FORMAT}}}' > {folder / MARK}"


def _checkpoints(folder: Path) -> Iterator[Path]:
    return (p for p in (folder / CHECKPOINTS).glob("step_*") if STEP.fullmatch(p.name))


def _read(path: Path) -> bytes:
    """The beginning of a regular file; empty where there is none."""
    try:
        if path.is_symlink() or not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def _read_json(path: Path, *, first_line: bool = False) -> dict[str, Any] | None:
    text = _read(path)
    try:
        value = json.loads(text.split(b"\n", 1)[0] if first_line else text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
