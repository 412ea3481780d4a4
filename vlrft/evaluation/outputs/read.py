"""A file of stored outputs -> its rows. Rows that cannot be read are an error that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vlrft.data.cells import UnreadableRows
from vlrft.evaluation.outputs import lmms_eval, r1v, vlmevalkit
from vlrft.evaluation.outputs.columns import Keys, OutputFormat, OutputRow
from vlrft.evaluation.outputs.plain import plain_format
from vlrft.evaluation.outputs.stored_file import StoredFile, read_stored_file
from vlrft.schema.errors import OutputsError

FORMATS: tuple[OutputFormat, ...] = (lmms_eval.FORMAT, vlmevalkit.FORMAT, r1v.FORMAT)
LISTED = 10  # unreadable rows that a message names


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The rows of a file, and the form that they were read from."""

    form: str  # "lmms-eval's --log_samples"
    rows: tuple[OutputRow, ...]


def read_outputs(path: Path, keys: Keys | None = None) -> Outputs:
    """The outputs of a file. `keys`: the columns that the command names; with one of them the file is a plain table.

    Raises DataError where the file cannot be read, ConfigError for columns that are missing or ambiguous, and OutputsError
    for rows that cannot be read, all of them at once.
    """
    keys = keys or Keys()
    file = read_stored_file(path)
    if not file.rows:
        raise OutputsError(f"{path}: has no rows")
    form = _find_format(file, keys) if file.columns else None
    rows, problems = list[OutputRow](), list[str]()
    for number, cells in enumerate(file.rows):
        try:
            if isinstance(cells, UnreadableRows):
                problems.append(f"{cells.place.removeprefix(f'{path.name}, ')}: {cells.why}")
            elif form is not None:
                rows += form.read(cells, number)
        except KeyError as e:
            problems.append(f"row {number + 1}: no {e.args[0]!r}")
        except ValueError as e:
            problems.append(f"row {number + 1}: {e}")
    name = form.name if form is not None else "objects"
    if problems:
        more = [f"… and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
        head = f"{path}: {len(problems)} of {len(file.rows)} rows cannot be read as {name}"
        raise OutputsError("\n  ".join([head, *problems[:LISTED], *more]))
    return Outputs(form=name, rows=tuple(rows))


def _find_format(file: StoredFile, keys: Keys) -> OutputFormat:
    """The first format that recognises the file; a plain table where none does, or a column is named."""
    if keys == Keys():
        for form in FORMATS:
            if form.recognises(file):
                return form
    return plain_format(keys, file.columns)
