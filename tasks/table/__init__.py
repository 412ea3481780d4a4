"""Your own data, without Python: a table of questions, gold answers and pictures (`docs/howto/own_data.md`).

Raw forms: jsonl, json, csv, tsv, parquet and arrow tables, folders and zips of them, `datasets` folders, hub ids, and the
formats of `formats/`.

Two folders are the seams of this pack; a new part is a new file there and named nowhere else:

    formats/NAME.py    defines FORMAT: recognises a published layout and reads its rows into entries (`entry.Format`)
    answers/NAME.py    defines KIND: reads the gold answers of entries, and names rewards, grader, metrics and prompt
                       (`kind.AnswerKind`)

`splits.py` finds the data of a split, `rows.py` makes rows of entries, `sample.py` makes their prompts.
"""

from __future__ import annotations

from dataclasses import replace

from vlrft.data import Dataset, open_source
from vlrft.data.prepared import PreparedFolder
from vlrft.schema import DataError, Task
from vlrft.schema.errors import ConfigError
from vlrft.vision.box_options import resize

from .answers import kinds
from .kind import AnswerKind
from .options import Options
from .rows import describe, kind_of, open_part, read
from .sample import gold, sample
from .splits import NAMES, find_part
from .unread import find_unread, refuse_unread


def configure(base: Task, options: Options) -> Task:
    """The task with the rewards, the grader and the metrics of its kind of answers. Raises ConfigError, DataError."""
    kind = find_kind(base, options)
    if mistakes := find_unread(kind, options):
        raise ConfigError(mistakes)
    if options.boxes == "resized" and not kind.resized:
        raise ConfigError(
            [f"options.boxes: resized, but answer: {kind.name} is not asked for in pixels"]
        )
    return replace(
        base,
        rewards=kind.rewards,
        graders={"strict": kind.strict},
        metrics=kind.metrics,
        detail=lambda record: kind.detail,
    )


def find_kind(base: Task, options: Options) -> AnswerKind:
    """The kind that the options name; otherwise the one of the format of the data, or of prepared rows."""
    if options.answer is not None:
        return kinds()[options.answer]
    if options.data is None:
        known = "; ".join(
            f"{k.name} ({', '.join(k.rewards) or 'your own'})" for k in kinds().values()
        )
        raise ConfigError(
            [
                f"options.answer is not set; it says what the gold answers are, and chooses the rewards: {known}"
            ]
        )
    source = open_source(options.data, unreadable=[])
    prepared = PreparedFolder.at(source)
    if prepared is not None:
        prepared.refuse_other_task(base.name)
        row = next(prepared.rows(next(iter(prepared.manifest["splits"]), "train")))
        return kinds()[row.info["kind"]]
    problem: DataError | None = None
    for split in NAMES:
        try:
            raw, reading = open_part(find_part(source, split, options), split, options)
        except DataError as e:
            problem = problem or e
            continue
        return kind_of(raw, reading, options)
    assert problem is not None
    raise problem


task = Task(
    name="table",
    doc="Your own data: a table with columns for question, answer and picture (options.data, options.answer).",
    options=Options,
    splits=tuple(NAMES),
    load=Dataset(read=read, sample=sample, sources={}, describe=describe, select=refuse_unread),
    rewards={},
    graders={"strict": ()},
    gold=gold,
    configure=configure,
    resize=resize,
)
