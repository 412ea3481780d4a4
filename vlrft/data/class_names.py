"""Class labels as their names: tables of the hub hold a class as a number, and its name in the description of the column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.data.cells import Cells


class ClassName(str):
    """The name of a class whose number is in the table. A name may itself be a number: that of the class in a list that
    begins with 1, as folders are named after it."""

    __slots__ = ()


ClassNames = Mapping[str, Sequence[str]]
"""Column -> the names of its classes, number 0 first."""


def class_names(metadata: Mapping[bytes, bytes] | None) -> ClassNames:
    """The class columns that the metadata of an arrow schema describe, as `datasets` writes them; none where it describes
    no column."""
    try:
        info = json.loads((metadata or {}).get(b"huggingface", b"{}"))
        features = info["info"]["features"].items()
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def name_classes(cells: Cells, names: ClassNames) -> Cells:
    """The cells with each class's number replaced by its name; a class that is not known (-1) is None."""
    named = {column: _name(cells.get(column), names[column]) for column in names if column in cells}
    return {**cells, **named} if named else cells


def _name(number: Any, names: Sequence[str]) -> Any:
    if not isinstance(number, int):
        return number
    return ClassName(names[number]) if 0 <= number < len(names) else None
