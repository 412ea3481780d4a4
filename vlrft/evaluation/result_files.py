"""The files of an evaluation or of offline scoring: metrics by grader, and one line for every graded answer.

OUT            {"task", "n", "unreadable": {why: n}, "cut": n, "strict": {metric, correct, n, score, ci, ci_method, threshold,
               metrics}, "official": …, "classes", "boxes": tables, "records": PATH}; n is the number of answers, that of `strict` the one of its metric
records        {"id", "output", "extracted", "answer", "strict", "official", "tags", "scores", "truncated", "unreadable"} per line
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.data.atomic import draft_path, naming, write_atomically
from vlrft.data.jsonl import append_rows, read_lines
from vlrft.evaluation.evaluate import Evaluation, MetricValue
from vlrft.evaluation.unreadable import count_cut, count_unreadable, unreadable_lines
from vlrft.schema import DataError, Record, Task, Turn
from vlrft.schema.errors import StoredFileError
from vlrft.schema.pluralize import pluralize
from vlrft.schema.secrets import redact_settings


def records_path(out: Path) -> Path:
    """The path of the records that belong to `out`, in the same folder."""
    return out.with_name(f"{out.stem}.records.jsonl")


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Appends one line for each record."""
    append_rows(
        path,
        (
            {
                "id": r.id,
                "output": r.output,
                "extracted": r.extracted,
                "answer": r.answer,
                **r.grades,
                "tags": dict(r.tags),
                "info": dict(r.info),
                "scores": dict(r.scores),
                "truncated": r.truncated,
                **({"unreadable": r.unreadable} if r.unreadable else {}),
                **({"errors": dict(r.errors)} if r.errors else {}),
                **(
                    {"turns": [_turn_to_json(text, turn) for text, turn in r.turns]}
                    if r.turns
                    else {}
                ),
            }
            for r in records
        ),
    )


def replace_records(path: Path, records: Iterable[Record]) -> None:
    """Replaces the file of records atomically."""
    draft = draft_path(path.parent)
    with naming(path):
        try:
            write_records(draft, records)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def read_records(path: Path) -> list[Record]:
    """The records of a file, without a last line that a stopped writer left unfinished.

    Raises DataError for a line that is not a record.
    """
    records: list[Record] = []
    for number, (_, row) in enumerate(read_lines(path), 1):
        try:
            grades = {k: float(row[k]) for k in ("strict", "official") if row.get(k) is not None}
            records.append(
                Record(
                    id=row["id"],
                    output=row["output"],
                    grades=grades,
                    extracted=row["extracted"],
                    scores=row.get("scores", {}),
                    tags=row.get("tags", {}),
                    answer=row["answer"],
                    info=row.get("info", {}),
                    truncated=row.get("truncated", False),
                    unreadable=row.get("unreadable", ""),
                    errors=row.get("errors", {}),
                    turns=tuple(_turn_from_json(turn) for turn in row.get("turns", ())),
                )
            )
        except KeyError as e:
            raise DataError(
                f"{path}, line {number}: not a record of vlrft, it has no {e.args[0]!r}; give a file that vlrft eval or score wrote "
                "with --json, or grade these outputs with vlrft score"
            ) from e
        except (TypeError, ValueError) as e:
            raise DataError(
                f"{path}, line {number}: not a record of vlrft ({type(e).__name__}: {e})"
            ) from e
    return records


def holds_records(path: Path) -> bool:
    """Whether a file is empty or begins with a record."""
    with path.open("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n"):  # empty, or its writer was killed
        return not line or line.startswith(b'{"id"')
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and {"id", "output", "extracted"} <= row.keys()


def _turn_to_json(text: str, turn: Turn) -> dict[str, Any]:
    """A turn without its images."""
    outcome = {"reward": turn.reward, "penalty": turn.penalty, "valid": turn.valid}
    return {"shown": turn.shown, "said": text, **outcome}


def _turn_from_json(row: Mapping[str, Any]) -> tuple[str, Turn]:
    fields = {key: row[key] for key in ("shown", "reward", "penalty", "valid")}
    return row["said"], Turn(**fields)


def results_of(evaluation: Evaluation, graders: Sequence[str], **about: object) -> dict[str, Any]:
    """An evaluation as JSON: the metrics of these graders, and the tables of classes and boxes. `about`: describes the
    evaluation; its entries come first, without secrets."""
    return {
        **redact_settings(about),
        "n": len(evaluation.records),
        "unreadable": dict(count_unreadable(evaluation.records)),
        "cut": count_cut(evaluation.records),
        **{grader: headline(evaluation.graded[grader]) for grader in graders},
        **evaluation.details.to_json(),
    }


def write_results(out: Path, results: Mapping[str, Any]) -> None:
    """Writes what `results_of` returned, and the path of the records."""
    content = {**results, "records": str(records_path(out))}
    text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
    write_atomically(out, (text + "\n").encode(errors="backslashreplace"))


def read_results(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """An evaluation's results and its records. Raises DataError for a file that is no such JSON, or has no records, and
    StoredFileError for records of another evaluation."""
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; give one that vlrft eval or score wrote with --json, or a run's folder"
        )
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        named = Path(results["records"])
    except (ValueError, RecursionError, TypeError, KeyError):
        raise DataError(
            f"{path}: not the result of an evaluation; give a file that vlrft eval or score wrote with --json"
        ) from None
    file = _find_records(path, named)
    if not file.is_file():
        raise DataError(f"{path}: its records {file} do not exist")
    records = read_records(file)
    if not records:
        raise DataError(f"{file}: has no records")
    answers = results.get("n")
    if isinstance(answers, int) and answers != len(records):
        raise StoredFileError(
            f"{path}: is of {pluralize(answers, 'answer')}, but {file} has {len(records):,}, so it is of another evaluation"
        )
    return results, records


def _find_records(path: Path, named: Path) -> Path:
    """The records of the results in `path`. `named`: their path as it is stored, which is relative to the folder in which the
    command ran. Records next to the results, under the name that belongs to them, come first."""
    near = path.with_name(named.name)
    if near == records_path(path) and near.is_file():
        return near
    return named if named.is_file() else near


def headline(metrics: Mapping[str, MetricValue]) -> dict[str, Any]:
    """The first metric, with its name, as JSON, and all metrics under `metrics`: the first may be that of a part of the
    records."""
    name, first = next(iter(metrics.items()))
    values = {name: value.to_json() for name, value in metrics.items()}
    return {"metric": name, **first.to_json(), "metrics": values}


def summary_lines(evaluation: Evaluation, graders: Sequence[str]) -> list[str]:
    """An evaluation as text: metrics, unreadable answers, and the tables of classes and boxes."""
    unreadable = unreadable_lines(evaluation.records)
    return [*table(evaluation, graders), *unreadable, *evaluation.details.lines()]


def table(evaluation: Evaluation, graders: Sequence[str]) -> list[str]:
    """One line per metric, with the graders in columns: correct/n, score in percent and its 95 % interval."""
    names = list(dict.fromkeys(n for g in graders for n in evaluation.graded[g]))
    width = max(map(len, names))
    lines = [" " * width + "".join(f"  {grader:<34}" for grader in graders).rstrip()]
    for name in names:
        cells = (str(evaluation.graded[g].get(name) or "-") for g in graders)
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:<34}" for cell in cells).rstrip())
    return lines


def missing_metrics(task: Task, evaluation: Evaluation) -> list[str]:
    """One line for each grader of the task that has no metrics, with the reason."""
    return [
        f"the {grader} grader ({', '.join(rewards)}) applies to none of these samples and has no metrics"
        for grader, rewards in task.graders.items()
        if grader not in evaluation.graded
    ]
