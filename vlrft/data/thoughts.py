"""The reasoning before gold answers, in a table of its own: `vlrft data prepare` adds it to the rows of these ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlrft.data.cells import UnreadableRows
from vlrft.data.row import Defect, Row
from vlrft.data.tables import read_table
from vlrft.schema import DataError
from vlrft.schema.pluralize import pluralize

SHOWN = 5  # ids in a message


@dataclass(kw_only=True)
class Thoughts:
    """Row id -> the reasoning that `sft` teaches before the row's gold answer. Counts the rows of a split that have one."""

    path: Path
    by_id: Mapping[str, str]
    rows: int = 0
    matched: int = 0
    used: set[str] = field(default_factory=set[str])  # ids of rows of any split so far

    @staticmethod
    def read(path: Path) -> Thoughts:
        """A table (jsonl, json, csv, tsv, parquet, arrow, xlsx) with the columns `id` and `thought`.

        Raises DataError for a file that is no such table, an id twice, and a thought that is no text or empty.
        """
        by_id: dict[str, str] = {}
        try:
            with path.open("rb") as file:
                for number, cells in enumerate(read_table(file, path.name), 1):
                    if isinstance(cells, UnreadableRows):
                        raise DataError(f"{cells.place}: {cells.why}")
                    name, thought = cells.get("id"), cells.get("thought")
                    if name is None or not isinstance(thought, str) or not thought.strip():
                        raise DataError(
                            f"{path.name}, row {number}: expected the columns id and thought, a text"
                        )
                    if str(name) in by_id:
                        raise DataError(f"{path.name}, row {number}: the id {name} is there twice")
                    by_id[str(name)] = thought
        except OSError as e:
            raise DataError(f"{path}: cannot be read ({e.strerror})") from e
        if not by_id:
            raise DataError(f"{path}: no row; expected the columns id and thought")
        return Thoughts(path=path, by_id=by_id)

    def add_to(self, rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
        """The rows of a split with their thoughts. Raises DataError for a row that has another thought already."""
        self.rows = self.matched = 0
        for row in rows:
            if isinstance(row, Row):
                self.rows += 1
                if thought := self.by_id.get(row.id):
                    if row.thought:
                        raise DataError(f"{self.path}: row {row.id} has a thought of its own")
                    self.matched += 1
                    self.used.add(row.id)
                    row = replace(row, thought=thought)
            else:
                self.used.add(row.id)  # of a row that is left out, which is reported
            yield row

    @property
    def note(self) -> str:
        """One line on the rows of the last split."""
        return f"{self.matched} of {self.rows} rows have a thought, from {self.path.name}"

    @property
    def unused(self) -> list[str]:
        """The ids that no row of any split so far has."""
        return [name for name in self.by_id if name not in self.used]

    def unused_note(self, splits: Sequence[str]) -> str:
        """One line on the ids that no row of the splits has."""
        ids, shown = self.unused, ", ".join(map(repr, self.unused[:SHOWN]))
        more = ", …" if len(ids) > SHOWN else ""
        return f"{pluralize(len(ids), 'thought')} of {self.path.name} not used, no row of {', '.join(splits)} has the id: {shown}{more}"

    def digest(self) -> str:
        """A hash of all ids and thoughts."""
        texts = "\0".join(f"{name}\0{text}" for name, text in sorted(self.by_id.items()))
        return f"sha256 {hashlib.sha256(texts.encode(errors='replace')).hexdigest()}"
