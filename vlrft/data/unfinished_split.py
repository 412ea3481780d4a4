"""The files of a split that is being prepared, which an interrupted call leaves and the next one continues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vlrft.data.atomic import naming, write_atomically
from vlrft.data.jsonl import read_lines
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError, StoredFileError


@dataclass(frozen=True, kw_only=True)
class UnfinishedSplit:
    """`SPLIT.jsonl.part`, `SPLIT.defects.jsonl.part` and, for as long as there is one of them, `SPLIT.origin.part`."""

    folder: Path
    split: str

    @property
    def rows(self) -> Path:
        return self.folder / f"{self.split}.jsonl.part"

    @property
    def defects(self) -> Path:
        return self.folder / f"{self.split}.defects.jsonl.part"

    @contextmanager
    def begun(self, origin: str, *, restart: bool) -> Iterator[UnfinishedSplit]:
        """Keeps the origin of the rows next to them: a hash, since options may be secret. `restart`: without the rows of an
        earlier call. Raises ConfigError where they are the beginning of other rows."""
        path = self.folder / f"{self.split}.origin.part"
        begun = path.exists() and self._exist() and not restart
        if begun and path.read_text(encoding="utf-8", errors="replace").strip() != origin:
            raise ConfigError(
                [
                    f"{self.folder}: an interrupted call has begun this split with other data or options; use --overwrite "
                    "or another --out"
                ]
            )
        write_atomically(path, f"{origin}\n".encode())
        if restart:
            self.remove()
        try:
            yield self
        finally:
            if not self._exist():
                path.unlink()

    def _exist(self) -> bool:
        return self.rows.exists() or self.defects.exists()

    def repair(self) -> int:
        """The number of complete lines of both files; an incomplete last line, left by a killed call, is removed. Raises
        DataError for a damaged file."""
        whole = 0
        for path in (self.rows, self.defects):
            if path.exists():
                lines = [line + b"\n" for line, _ in _read(path)]
                write_atomically(path, b"".join(lines))
                whole += len(lines)
        return whole

    @contextmanager
    def appending(self) -> Iterator[tuple[IO[str], IO[str]]]:
        """Both files, rows first. Errors of the file system name the folder."""
        with (
            naming(self.folder),
            self.rows.open("a", encoding="utf-8") as rows,
            self.defects.open("a", encoding="utf-8") as defects,
        ):
            yield rows, defects

    def stored_ids(self) -> set[str]:
        """The ids of the rows."""
        return {row["id"] for _, row in _read(self.rows)}

    def read_defects(self) -> list[dict[str, Any]]:
        """`id`, `reason`, `detail` and `intended` of each."""
        return [row for _, row in _read(self.defects)]

    def count_rows(self) -> int:
        return len(_read(self.rows))

    def digest(self) -> str:
        """SHA-256 of the rows, in hexadecimal."""
        return hashlib.sha256(self.rows.read_bytes()).hexdigest()

    def is_empty(self) -> bool:
        return not any(p.stat().st_size for p in (self.rows, self.defects) if p.exists())

    def remove(self) -> None:
        self.rows.unlink(missing_ok=True)
        self.defects.unlink(missing_ok=True)

    def finish(self) -> None:
        """Gives both files their final names."""
        for path in (self.rows, self.defects):
            path.replace(path.with_suffix(""))


def _read(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Complete lines with their objects. Raises DataError for a damaged file."""
    if not path.exists():
        return []
    try:
        return list(read_lines(path, {"id": str}))
    except StoredFileError as e:
        raise DataError(f"{path}: damaged; prepare it again with --overwrite") from e
