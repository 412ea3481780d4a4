"""VLMEvalKit's result tables: `MODEL_DATASET.xlsx`, or .tsv and .json by PRED_FORMAT; the data set's columns and `prediction`.

`index`, `question`, `answer` (not in test splits), `prediction`; of multiple choice also `A`, `B`, … with the options, and
`category`, `l2-category`, `split`. With SPLIT_THINK the reasoning is in `thinking`.
Source: vlmeval/inference.py, vlmeval/smp/file.py and docs/en/Development.md at e8e78f0.
"""

from __future__ import annotations

from string import ascii_uppercase

from vlrft.data import Cells
from vlrft.evaluation.outputs.columns import OutputFormat, OutputRow, id_of, text_of
from vlrft.evaluation.outputs.stored_file import StoredFile

TAGS = ("category", "l2-category", "split")


def recognises(file: StoredFile) -> bool:
    return {"index", "prediction"} <= set(file.columns) and "output" not in file.columns


def read(cells: Cells, number: int) -> list[OutputRow]:
    tags = {name: str(cells[name]) for name in TAGS if cells.get(name) not in (None, "")}
    options = _options(cells)
    if options and str(cells.get("answer")) in ascii_uppercase[: len(options)]:
        tags |= {"answer": "choice", "options": "\n".join(" ".join(o.split()) for o in options)}
    return [
        OutputRow(
            number=number,
            id=id_of(cells["index"], "index"),
            output=text_of(cells["prediction"], "prediction"),
            answer=None if cells.get("answer") == "" else cells.get("answer"),
            tags=tags,
        )
    ]


def _options(cells: Cells) -> list[str]:
    """The options of a question of multiple choice, from A on."""
    options = list[str]()
    for letter in ascii_uppercase:
        if cells.get(letter) in (None, ""):
            break
        options.append(str(cells[letter]))
    return options


FORMAT = OutputFormat(name="VLMEvalKit's result table", recognises=recognises, read=read)
