"""Rows of results in a file of JSON lines, so that a benchmark that was interrupted continues where it was."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CHANGED = "+"  # after a commit's name: the files differ from it
Row = dict[str, Any]


class Records:
    """The rows of a file; a new row is written at once. Rows of a commit whose files had been changed are not read: the
    files may be others now. A row names its commit itself or in its `machine`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        if path.exists():
            rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
            self.rows = [row for row in rows if not commit_name(row).endswith(CHANGED)]

    def find(self, key: Mapping[str, Any]) -> list[Row]:
        """The rows that have all of the key's values."""
        return [row for row in self.rows if key.items() <= row.items()]

    def remove(self, key: Mapping[str, Any]) -> None:
        """Removes the rows that have all of the key's values, from the file too."""
        self.rows = [row for row in self.rows if not key.items() <= row.items()]
        if self.path.exists():
            text = "".join(json.dumps(row) + "\n" for row in self.rows)
            self.path.write_text(text, "utf-8")

    def add(self, rows: Iterable[Row]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
                self.rows.append(row)


def commit_name(row: Row) -> str:
    """The commit that a row is of; empty where it names none."""
    return str(row.get("commit") or row.get("machine", {}).get("commit") or "")


def commit_of(checkout: Path) -> str:
    """The checkout's commit, followed by a + where its files, apart from results, have been changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(checkout), *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout

    results = ":!benchmarks/results"  # to which a benchmark adds its own rows
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", results)
    commit = git("rev-parse", "--short", "HEAD").strip() or "unknown"
    return f"{commit}{CHANGED * bool(changed.strip())}"
