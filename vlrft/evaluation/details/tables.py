"""Both tables of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vlrft.evaluation.details.box_table import BoxTable, make_box_table
from vlrft.evaluation.details.class_table import ClassTable, make_class_table
from vlrft.plugins.attribution import attributed
from vlrft.schema import Detail, Record, Task


@dataclass(frozen=True, kw_only=True)
class Details:
    """The tables of an evaluation; None: it has no such records."""

    classes: ClassTable | None = None
    boxes: BoxTable | None = None

    def lines(self) -> list[str]:
        """The tables as text, with an empty line before each."""
        tables = (self.classes, self.boxes)
        return [line for t in tables if t is not None for line in ("", *t.lines())]

    def to_json(self) -> dict[str, Any]:
        tables = {"classes": self.classes, "boxes": self.boxes}
        return {name: t.to_json() for name, t in tables.items() if t is not None}


def make_details(task: Task, records: Sequence[Record]) -> Details:
    """The tables of the records that the task's `detail` assigns to them."""
    if task.detail is None:
        return Details()
    assigned: dict[Detail, list[Record]] = {"class": [], "box": []}
    for record in records:
        with attributed(f"task {task.name}: its `detail`"):
            name = task.detail(record)
        if name is not None:
            assigned[name].append(record)
    return Details(
        classes=make_class_table(assigned["class"]), boxes=make_box_table(assigned["box"])
    )
