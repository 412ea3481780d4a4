"""The formats of rows: each file of this folder that defines `FORMAT` (`tasks/table/entry.py` has the protocol)."""

from __future__ import annotations

from vlrft.data import describe_files
from vlrft.data.split_rows import table_names
from vlrft.schema import DataError

from ..entry import Format, Raw
from ..registry import find_objects

FALLBACK = "columns"  # reads what no other format recognises


def formats() -> dict[str, Format]:
    """Name -> format."""
    return {entry.name: entry for entry in find_objects(__name__, "FORMAT")}


def find_format(raw: Raw, wanted: str | None) -> tuple[Format, str]:
    """The format of the data and why: the one named by `options.format`, else the only one that recognises them.

    Raises DataError where several do.
    """
    table = formats()
    if wanted is not None:
        return table[wanted], "options.format"
    reasons = {name: table[name].recognises(raw) for name in table if name != FALLBACK}
    found = {name: why for name, why in reasons.items() if why}
    if len(found) > 1:
        raise DataError(
            f"{raw.source.label}: may be {' or '.join(f'{name} ({why})' for name, why in found.items())}; "
            f"say which: options.format={next(iter(found))}"
        )
    for name, why in found.items():
        return table[name], why
    if not raw.head and (lost := getattr(raw.source, "unreadable", None)):
        raise DataError(f"{raw.source.label}: no row can be read; {lost[0].id}: {lost[0].detail}")
    if not raw.head and raw.split is not None and table_names(raw.source):
        raise DataError(
            f"{raw.source.label}: the {raw.name} split has no rows: its table is empty, or has a header alone"
        )
    if not raw.head:
        raise DataError(
            f"{raw.source.label}: no table with rows for the {raw.name} split, and none of the formats {', '.join(table)}; "
            f"found {describe_files(raw.source)}"
        )
    return table[FALLBACK], "a table with columns"
