"""The report of an exception that vlrft did not expect: what ran, where it failed, with which versions. No secrets."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from vlrft.reporting.run_folder.mark import is_run
from vlrft.schema.errors import VlrftError
from vlrft.schema.secrets import redact
from vlrft.schema.terminal import show_controls

PACKAGES = (
    "vlrft",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "pillow",
    "datasets",
    "deepspeed",
)


def write_crash_report(error: BaseException, arguments: Sequence[str], folder: Path | None) -> Path:
    """Writes the report and returns its path: `crash.txt` in the run's folder where there is one (`crash_rank1.txt` of
    another rank), else a new file among the temporary ones. Only its owner can read it."""
    path = _in_run(folder) or _temporary()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as out:
        out.write(report(error, arguments))
    return path


def report(error: BaseException, arguments: Sequence[str]) -> str:
    """The text of a report: time, command, versions, and the traceback without values of variables."""
    lines = [
        "A fault of vlrft or of a plugin. Please report it with this file; read it first: it has no secrets that",
        "vlrft could recognise, but it names your files and settings.",
        "",
        f"time      {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"command   vlrft {' '.join(arguments)}",
        f"python    {platform.python_version()} on {platform.platform()}",
        *(f"{name:9s} {_version(name)}" for name in PACKAGES),
        "",
        "".join(traceback.format_exception(error)),
    ]
    return show_controls(redact("\n".join(lines)))


def _in_run(folder: Path | None) -> Path | None:
    try:
        if folder is None or not is_run(folder):
            return None
    except VlrftError:  # of a newer version
        return None
    rank = os.environ.get("RANK", "0")
    path = folder / ("crash.txt" if rank == "0" else f"crash_rank{rank}.txt")
    return None if path.is_symlink() else path


def _temporary() -> Path:
    file, name = tempfile.mkstemp(prefix="vlrft-crash-", suffix=".txt")
    os.close(file)
    return Path(name)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
