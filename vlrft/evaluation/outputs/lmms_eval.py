"""lmms-eval's `--log_samples`: `…_samples_TASK.jsonl`, one object a sample.

`doc_id` (the index in the data set's split), `target` (the gold answer as text), `filtered_resps` (after the task's filters
and without reasoning) and, where it differs, `resps` (as the model wrote it), `doc_hash`, `input`, and the task's metrics.
Until v0.6 `resps` is `[["text"]]` and `filtered_resps` `["text"]`, since v0.7 `["text"]` and `"text"`; several responses to a
sample are a longer list.
Source: lmms_eval/loggers/evaluation_tracker.py at 75571cf and 0716c69; pull request 1103.
"""

from __future__ import annotations

from vlrft.data import Cells
from vlrft.evaluation.outputs.columns import OutputFormat, OutputRow, id_of, text_of
from vlrft.evaluation.outputs.stored_file import StoredFile


def recognises(file: StoredFile) -> bool:
    return {"doc_id", "filtered_resps"} <= set(file.columns)


def read(cells: Cells, number: int) -> list[OutputRow]:
    name = id_of(cells["doc_id"], "doc_id")
    column = "resps" if cells.get("resps") is not None else "filtered_resps"
    responses = cells[column]
    if isinstance(responses, list) and len(responses) == 1 and isinstance(responses[0], list):
        (responses,) = responses
    texts = responses if isinstance(responses, list) else [responses]
    answer = cells.get("target")
    if isinstance(answer, str) and len(answer) == 3 and answer[0] + answer[2] == "()":
        answer = answer[1] if answer[1].isupper() else answer  # CV-Bench's "(B)": the letter
    return [
        OutputRow(number=number, id=name, output=text_of(text, column), answer=answer)
        for text in texts
    ]


FORMAT = OutputFormat(name="lmms-eval's --log_samples", recognises=recognises, read=read)
