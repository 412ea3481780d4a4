"""A pack with data of pictures and questions, its raw rows, and rows of it that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vlrft.testing.small_policies import noise_image

TASK = "./signs.py:task"
PACK = """
from dataclasses import dataclass
from vlrft.data import Dataset, Defect, Row
from vlrft.data.pictures import parse_picture
from vlrft.schema import IMAGE, DataError, Message, Sample, Task

@dataclass(frozen=True, kw_only=True)
class Options:
    data: str | None = None

def read(source, split, options):
    for number, cells in enumerate(source.rows(split)):
        name = f"{split}/{number}"
        if cells["answer"] == "twice":
            yield Defect(id=name, reason="more than one image", intended=True)
            continue
        try:
            image = parse_picture(cells["image"], source, name)
        except DataError as e:
            yield Defect(id=name, reason="no image", detail=str(e))
            continue
        yield Row(id=name, question=cells["question"], answer=cells["answer"], pictures=(image,),
                  tags={"kind": cells["kind"]})

def sample(row, options):
    question = Message(role="user", content=(IMAGE, row.question))
    return Sample(id=row.id, messages=(question,), answer=row.answer, tags=row.tags)

task = Task(name="signs", doc="Signs.", options=Options, splits=("train", "test"),
            load=Dataset(read=read, sample=sample, sources={"train": "some/signs"}),
            rewards={"choice": 1.0}, graders={"strict": ("choice",), "official": ("format",)},
            gold=lambda s: f"<answer>{s.answer}</answer>")
"""


def write_raw(folder: Path, **changes: Any) -> None:
    folder.mkdir()
    rows = []
    for k in range(6):
        noise_image(8 + k, 8, k).save(folder / f"{k}.png")
        row = {"image": f"{k}.png", "question": "Which?", "answer": "stop", "kind": "ab"[k % 2]}
        rows.append(row | changes.get(f"row{k}", {}))
    (folder / "test.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


BAD = {
    "row1": {"answer": "twice"},
    "row2": {"image": "gone.png"},
    "row3": {"question": "  "},
    "row4": {"answer": ""},
    "row5": {"image": None},
}


def defects(folder: str) -> dict[str, str]:
    lines = Path(folder, "test.defects.jsonl").read_text().splitlines()
    return {row["id"]: row["reason"] for row in map(json.loads, lines)}


def enter_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this folder, with the pack in it, the working directory."""
    monkeypatch.chdir(folder)
    (folder / "signs.py").write_text(PACK)
