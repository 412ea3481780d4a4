"""Kinds of gold answers that no shipped reward reads, in rows that are prepared before their rewards are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vlrft.data import Defect, Row
from vlrft.grading import KINDS
from vlrft.schema.pluralize import pluralize

SHOWN = 5  # kinds


@dataclass
class UnreadKinds:
    """Counts rows by such a kind: usable with rewards of one's own, but a misspelled kind looks the same."""

    counts: Counter[str] = field(default_factory=Counter[str])

    def watch(self, rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
        """The same rows, counted as they pass."""
        for row in rows:
            if isinstance(row, Row) and (kind := row.tags.get("answer")) not in (None, *KINDS):
                self.counts[str(kind)] += 1
            yield row

    @property
    def note(self) -> str:
        """One line; empty without such a row."""
        if not self.counts:
            return ""
        rows = sum(self.counts.values())
        named = [f"{kind[:40]!r} ({count})" for kind, count in self.counts.most_common(SHOWN)]
        more = ", …" if len(self.counts) > SHOWN else ""
        return (
            f"note: {pluralize(rows, 'row')} {'has' if rows == 1 else 'have'} a kind that no shipped reward reads: "
            f"{', '.join(named)}{more}; name the rewards that read it (rewards={{NAME: 1.0}}), or correct the kind: "
            f"{', '.join(KINDS)}"
        )
