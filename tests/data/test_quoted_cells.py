"""Quotes in csv and tsv: legal cells are read as they are meant, and a quote that is not closed takes no further rows with it."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from vlrft.data.cells import UnreadableRows
from vlrft.data.tables import read_table
from vlrft.schema import DataError


def read(text: str, name: str = "rows.csv") -> list[Any]:
    """The cells of each row; of one that cannot be read its place."""
    rows = read_table(BytesIO(text.encode()), name)
    return [r.place if isinstance(r, UnreadableRows) else list(r.values()) for r in rows]


LEGAL: dict[str, tuple[str, list[list[str | None]]]] = {
    "a quote within a cell": ('a,b\n1,"say ""hi"" now"\n2,x\n', [["1", 'say "hi" now'], ["2", "x"]]),
    "a comma within a cell": ('a,b\n1,"x, y"\n', [["1", "x, y"]]),
    "a line break within a cell": ('a,b\n1,"x\ny"\n2,z\n', [["1", "x\ny"], ["2", "z"]]),
    "a quote in the middle": ('a,b\n1,how long is 12"\n2,5"6\n', [["1", 'how long is 12"'], ["2", '5"6']]),
    "a quote after a space": ('a,b\n1, "x"\n', [["1", ' "x"']]),
    "empty quoted cells": ('a,b\n"",""\n', [["", ""]]),
    "no line break at the end": ('a,b\n1,"x"', [["1", "x"]]),
    "Windows' line breaks": ('a,b\r\n1,"x\r\ny"\r\n', [["1", "x\r\ny"]]),
    "columns in quotes": ('"a","b"\n"1","2"\n', [["1", "2"]]),
    "semicolons and quotes": ('"a";"b"\n"1";"x, y; z"\n', [["1", "x, y; z"]]),
}  # fmt: skip


@pytest.mark.parametrize("case", LEGAL)
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_legal_quotes_are_read(case: str, suffix: str) -> None:
    text, rows = LEGAL[case]
    if suffix == "tsv":
        text = text.replace("a,b", "a\tb").replace('"a","b"', '"a"\t"b"')
        text = text.replace("1,", "1\t").replace("2,", "2\t").replace('"1",', '"1"\t')
        text = text.replace('"",""', '""\t""')
    assert read(text, f"rows.{suffix}") == rows


BROKEN: dict[str, tuple[str, list[Any]]] = {
    "not closed": ('a,b\n1,x\n2,"y\n3,z\n4,w\n', [["1", "x"], "rows.csv, lines 3 to 5"]),
    "not closed in the last line": ('a,b\n1,x\n2,"y', [["1", "x"], "rows.csv, line 3"]),
    "closed by a later row": (
        'a,b\n1,"x\n2,"y"\n3,z\n',
        ["rows.csv, lines 2 to 3", ["3", "z"]],
    ),
    "closed too early": ('a,b\n1,"Stop" sign\n2,y\n', ["rows.csv, line 2", ["2", "y"]]),
    "closed too early, before a cell of two lines": (
        'a,b,c\n1,"Stop" sign,"two\nlines, of it"\n2,y,z\n',
        ["rows.csv, lines 2 to 3", ["2", "y", "z"]],
    ),
    "escaped as in C": ('a,b\n1,"say \\"hi\\" now"\n2,y\n', ["rows.csv, line 2", ["2", "y"]]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_quote_that_is_not_closed_costs_the_lines_that_it_takes(case: str) -> None:
    text, rows = BROKEN[case]
    assert read(text) == rows


def test_a_tsv_without_quoting_does_not_lose_its_quotes() -> None:
    """Whether the quotes are of the text or of the table is not said: neither is guessed."""
    text = 'q\ta\nWhat does it say?\t"Stop" sign\nWhich word?\tcat\n'
    bad, good = read_table(BytesIO(text.encode()), "rows.tsv")
    assert good == {"q": "Which word?", "a": "cat"}
    assert isinstance(bad, UnreadableRows)
    assert bad.place == "rows.tsv, line 2"
    assert bad.why.isprintable()
    assert 'write a quote within it twice, "say ""hi"" now"' in bad.why


def test_columns_with_a_quote_that_is_not_closed_are_an_error() -> None:
    with pytest.raises(DataError, match=r"rows.csv: the line of its columns is not csv"):
        read('a,"b\n1,2\n')
