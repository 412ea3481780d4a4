"""Small tables with pictures, as a user may have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from vlrft.config import TaskConfig
from vlrft.rollout.task import LoadedTask, load_task

SIZE = (200, 100)  # of every picture
Rows = Sequence[Mapping[str, Any]]


def write_pictures(folder: Path, count: int = 6) -> None:
    """`0.png`, `1.png`, …, each of another colour."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        Image.new("RGB", SIZE, (40 * k, 90, 200 - 30 * k)).save(folder / f"{k}.png")


def write_rows(path: Path, rows: Rows) -> Path:
    """A jsonl table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def rows(answers: Sequence[Any], column: str = "answer", **cells: Any) -> list[dict[str, Any]]:
    """A row for each answer, with a question and a picture, and these cells."""
    return [
        {"image": f"{k}.png", "question": f"What is in picture {k}?", column: answer, **cells}
        for k, answer in enumerate(answers)
    ]


def write_table(folder: Path, table: Rows, name: str = "data.jsonl") -> Path:
    """A table next to its pictures."""
    write_pictures(folder, len(table))
    return write_rows(folder / name, table)


def load(data: Path | str | None, split: str = "train", **options: Any) -> LoadedTask:
    """A split of task table."""
    place = {} if data is None else {"data": str(data)}
    return load_task(TaskConfig(name="table", options={**place, **options}), split)


def text_of(loaded: LoadedTask, index: int = 0) -> str:
    """The last message of a sample, with `<image>` for each picture."""
    content = loaded.samples[index].messages[-1].content
    return "".join(part if isinstance(part, str) else "<image>" for part in content)
