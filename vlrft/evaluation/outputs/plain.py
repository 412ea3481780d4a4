"""Any table of outputs: its columns are named by the command, or found by their names where exactly one fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlrft.data import Cells
from vlrft.evaluation.outputs.columns import Keys, OutputFormat, OutputRow, id_of, text_of
from vlrft.schema.errors import ConfigError

DOCUMENTED = {"id", "output", "answer"}  # the first of each of the lists below; never ambiguous
IDS = ("id", "sample_id", "question_id", "doc_id", "index", "idx", "qid", "uid")
OUTPUTS = (
    "output",
    "prediction",
    "response",
    "completion",
    "model_output",
    "generated_text",
    "generation",
    "pred",
    "text",
)
ANSWERS = ("answer", "ground_truth", "gold", "target", "label", "solution", "gt", "reference")


def plain_format(keys: Keys, columns: Sequence[str]) -> OutputFormat:
    """The format of a table with these columns. Raises ConfigError, all mistakes at once, where a column is missing or one
    of several."""
    mistakes = list[str]()

    def choose(option: str, named: str | None, candidates: Sequence[str]) -> str | None:
        try:
            return _choose(option, named, candidates, columns)
        except ValueError as e:
            mistakes.append(str(e))
            return None

    id_column = choose("--id-key", keys.id, IDS)
    output_column = choose("--output-key", keys.output, OUTPUTS)
    taken = {id_column, output_column}
    answer_column = None
    if keys.answer is not None or any(c in ANSWERS and c not in taken for c in columns):
        answer_column = choose("--answer-key", keys.answer, [c for c in ANSWERS if c not in taken])
    if mistakes or id_column is None or output_column is None:
        raise ConfigError(mistakes)

    def read(cells: Cells, number: int) -> list[OutputRow]:
        info = cells.get("info")
        return [
            OutputRow(
                number=number,
                id=id_of(_cell(cells, id_column), id_column),
                output=text_of(_cell(cells, output_column), output_column),
                answer=None if answer_column is None else _cell(cells, answer_column),
                tags=_read_tags(cells.get("tags")),
                info=dict(info) if isinstance(info, Mapping) else {},
                truncated=cells.get("truncated") is True,  # as in vlrft's own records
            )
        ]

    parts = {"id": id_column, "output": output_column, "gold answer": answer_column}
    words = ", ".join(f"{part} {column!r}" for part, column in parts.items() if column)
    return OutputFormat(name=f"rows with {words}", recognises=lambda file: True, read=read)


def _read_tags(cell: object) -> dict[str, str]:
    """The tags in a cell, as texts, without those that are null; none where it has no mapping."""
    tags: Mapping[object, object] = cell if isinstance(cell, Mapping) else {}
    return {str(name): str(value) for name, value in tags.items() if value is not None}


def _choose(
    option: str, named: str | None, candidates: Sequence[str], columns: Sequence[str]
) -> str:
    """The column that the option names, or the one with a known name. Raises ValueError."""
    listed = ", ".join(columns) or "none"
    if named is not None:
        if named in columns or named.partition(".")[0] in columns:
            return named
        raise ValueError(f"{option} {named}: no such column; columns: {listed}")
    fitting = [name for name in candidates if name in columns]
    if len(fitting) == 1 or (fitting and fitting[0] in DOCUMENTED):
        return fitting[0]
    if fitting:
        raise ValueError(f"several columns fit, {', '.join(fitting)}; choose one with {option}")
    raise ValueError(
        f"no column of a known name ({', '.join(candidates)}); name it with {option}; columns: {listed}"
    )


def _cell(cells: Cells, column: str) -> Any:
    """The cell; `doc.answer` is the key `answer` of the object in the column `doc`. Raises KeyError."""
    if column in cells:
        return cells[column]
    value: Any = cells
    for key in column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise KeyError(column)
        value = value[key]
    return value
