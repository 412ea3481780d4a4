"""Rows whose texts spell a control token of chat models: usable, since it is read as plain text, but rarely meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vlrft.data.row import Defect, Row

CONTROL_TOKEN = re.compile(
    r"<[|｜][^<>|｜\s]{1,60}[|｜]>"  # <|im_end|>
    r"|</?tool_(?:call|response)>|<(?:start|end)_of_turn>|\[/?INST\]|\[[gs]?MASK\]|<[se]op>"
)


@dataclass
class SpelledTokens:
    """Counts rows that spell a control token. No tokenizer is asked: the usual spellings are enough for a note."""

    rows: int = 0
    first: str = ""  # id and token

    def look_at(self, row: Row) -> None:
        """Counts the row if its question, its thought or its gold answer spells a control token."""
        texts = (text for text in (row.question, row.thought, row.answer) if isinstance(text, str))
        token = next(filter(None, map(CONTROL_TOKEN.search, texts)), None)
        if token is not None:
            self.rows += 1
            self.first = self.first or f"{row.id} ({token[0]})"

    def watch(self, rows: Iterable[Row | Defect]) -> Iterator[Row | Defect]:
        """The same rows, looked at as they pass."""
        for row in rows:
            if isinstance(row, Row):
                self.look_at(row)
            yield row

    @property
    def note(self) -> str:
        """One line; empty without such a row."""
        if not self.rows:
            return ""
        count = "1 row spells" if self.rows == 1 else f"{self.rows} rows spell"
        return (
            f"note: {count} a control token of chat models, the first {self.first}: policies read it as plain text, but "
            "for the markup of gold answers"
        )
