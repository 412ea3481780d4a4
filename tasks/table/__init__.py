"""Your own data, without Python: a table of questions, gold answers and pictures (`docs/howto/own_data.md`).

Raw forms: jsonl, json, csv, tsv, parquet and arrow tables, folders and zips of them, `datasets` folders, hub ids, and the
formats of `formats/`.

Two folders are the seams of this pack; a new part is a new file there and named nowhere else:

    formats/NAME.py    defines FORMAT: recognises a published layout and reads its rows into entries (`entry.Format`)
    answers/NAME.py    defines KIND: reads the gold answers of entries, and names rewards, grader, metrics and prompt
                       (`kind.AnswerKind`)

`rows.py` chooses the split and the format, and makes rows of entries; `sample.py` makes their prompts.
"""

from __future__ import annotations

from vlrft.data import Dataset
from vlrft.schema import Task

from .options import Options
from .rows import read
from .sample import gold, sample

task = Task(
    name="table",
    doc="Your own data: a table with columns for question, answer and picture (options.data, options.answer).",
    options=Options,
    splits=("train", "validation", "test"),
    load=Dataset(read=read, sample=sample, sources={}),
    rewards={"math_answer": 1.0, "format": 1.0},
    graders={"strict": ("math_answer",)},
    gold=gold,
)
