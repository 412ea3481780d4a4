"""Replacing a file atomically."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DRAFT = re.compile(r"\.vlrft-[0-9a-f]{16}\.draft")
"""Names of files that are being written, or that a killed writer left."""


def draft_path(folder: Path) -> Path:
    """A new hidden path in the folder, under a name that no other file has: one of DRAFT."""
    return folder / f".vlrft-{secrets.token_hex(8)}.draft"


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces a file atomically: it has the old content or the new one, even if the writer is killed.

    A symbolic link at `path` is replaced by a file; the file that it points to stays as it is.
    """
    draft = draft_path(path.parent)
    with naming(path):
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the operating system within the block that name no file, as that of a full disk, or a draft, name this
    path."""
    try:
        yield
    except OSError as e:
        named = Path(os.fsdecode(e.filename)).name if isinstance(e.filename, str | bytes) else ""
        if e.errno is not None and (not named or DRAFT.fullmatch(named)):
            e.filename = str(path)
        raise
