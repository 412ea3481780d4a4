"""The records of an evaluation that may have been interrupted, the file with its settings, and its lock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vlrft.cli.outputs import refuse_foreign_records
from vlrft.config.load import dump_sections, equals_sections
from vlrft.data.atomic import write_atomically
from vlrft.data.jsonl import read_lines
from vlrft.data.writer_lock import lock
from vlrft.evaluation.result_files import read_records
from vlrft.schema import Record
from vlrft.schema.errors import ConfigError

DATA = re.compile(r"^data: (.+)\n", re.MULTILINE)
"""The line of the file with the settings that has the number of samples and their hash."""


class PartialRecords:
    """The records next to an evaluation's results, and the settings and the data that they were made with."""

    def __init__(self, out: Path, sections: Mapping[str, object], *, restart: bool) -> None:
        """Changes nothing. `restart`: older results and records will be removed. Raises ConfigError for records of other settings,
        and for files of these names that vlrft did not write."""
        self.restart, self.sections, self.out = restart, sections, out
        self.begun = False
        self.path = refuse_foreign_records(out)
        self.settings_file = out.with_name(f"{out.stem}.settings.yaml")
        old = self._read_settings()
        if old and not all(re.search(rf"^{key}:", old, re.MULTILINE) for key in sections):
            raise ConfigError(
                [f"{self.settings_file} exists, and vlrft did not write it; use another --json"]
            )
        if (
            self.path.exists()
            and not restart
            and not equals_sections(DATA.sub("", old), **sections)
        ):
            raise ConfigError(
                [
                    f"{self.path} was started with other settings (see {self.settings_file}); "
                    "use --overwrite or another --json"
                ]
            )

    def begin(self, answers: int, data: str) -> list[Record]:
        """Writes the settings; returns the records of all complete samples, `answers` each, and removes those of an
        incomplete one from the file. With `restart` the results and all records are removed first. `data`: the number of
        samples and their hash. Raises ConfigError for records of other data."""
        before = DATA.search(self._read_settings())
        if self.path.exists() and not self.restart and before is not None and before[1] != data:
            raise ConfigError(
                [
                    f"{self.path} was started with other data (it was of {before[1]}, and is now of {data}); "
                    "use --overwrite or another --json"
                ]
            )
        self.begun = True
        if self.restart:
            self.out.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
        text = f"data: {data}\n{dump_sections(**self.sections)}"
        write_atomically(self.settings_file, text.encode())
        if not self.path.exists():
            return []
        lines = [line + b"\n" for line, _ in read_lines(self.path)]
        write_atomically(self.path, b"".join(lines[: len(lines) // answers * answers]))
        return read_records(self.path)

    def _read_settings(self) -> str:
        """The content of the file with the settings; empty where there is none."""
        if not self.settings_file.exists():
            return ""
        return self.settings_file.read_text(encoding="utf-8", errors="replace")


@contextmanager
def partial_records(
    out: Path | None, sections: Mapping[str, object], *, restart: bool
) -> Iterator[PartialRecords | None]:
    """The partial records of an evaluation, which no other process writes in the meantime; None without `out`.

    The folder of `out` exists. Raises ConfigError as PartialRecords does, and FolderInUse where another process writes
    them.
    """
    if out is None:
        yield None
        return
    try:
        held = lock(out.with_name(f".{out.stem}.vlrft-lock"), str(out))
    except OSError as e:
        raise ConfigError([f"{out}: cannot be written ({e.strerror})"]) from None
    with held:
        yield PartialRecords(out, sections, restart=restart)
