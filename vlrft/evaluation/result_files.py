"""The files of an evaluation or an offline scoring: figures by grader, and a line for every graded answer.

OUT            {"task", "n", "strict": {correct, n, score, ci, threshold, measures}, "official": …, "records": PATH}
records        {"id", "output", "extracted", "answer", "strict", "official", "tags", "scores", "truncated"} a line
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.data.jsonl import append_rows, read_lines, write_atomically
from vlrft.evaluation.evaluate import Evaluation, MetricValue
from vlrft.schema import DataError, Record, Task, Turn


def records_path(out: Path) -> Path:
    """Where the records of `out` are: beside it."""
    return out.with_name(f"{out.stem}.records.jsonl")


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Appends a line each."""
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
                **({"errors": dict(r.errors)} if r.errors else {}),
                **({"turns": [_turn(said, turn) for said, turn in r.turns]} if r.turns else {}),
            }
            for r in records
        ),
    )


def read_records(path: Path) -> list[Record]:
    """The records that were written; a last line that a stopped writer left unfinished is not there.

    Raises DataError for a line that is no record.
    """
    found: list[Record] = []
    for number, (_, row) in enumerate(read_lines(path), 1):
        try:
            grades = {k: float(row[k]) for k in ("strict", "official") if row.get(k) is not None}
            found.append(
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
                    errors=row.get("errors", {}),
                    turns=tuple(_said(turn) for turn in row.get("turns", ())),
                )
            )
        except (KeyError, TypeError, ValueError) as e:
            raise DataError(
                f"{path}, line {number}: no record of vlrft ({type(e).__name__}: {e})"
            ) from e
    return found


def _turn(said: str, turn: Turn) -> dict[str, Any]:
    """A turn in words; its images are not kept."""
    earned = {"reward": turn.reward, "penalty": turn.penalty, "valid": turn.valid}
    return {"shown": turn.shown, "said": said, **earned}


def _said(row: Mapping[str, Any]) -> tuple[str, Turn]:
    earned = {key: row[key] for key in ("shown", "reward", "penalty", "valid")}
    return row["said"], Turn(**earned)


def write_results(out: Path, found: Evaluation, graders: Sequence[str], **about: object) -> None:
    """The figures of the chosen graders; what the run was about stands first."""
    content: dict[str, Any] = {**about, "n": len(found.records)}
    for grader in graders:
        content[grader] = headline(found.graded[grader])
    content["records"] = str(records_path(out))
    write_atomically(out, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def headline(figures: Mapping[str, MetricValue]) -> dict[str, Any]:
    """The first measure's figures, and every measure below them."""
    first = next(iter(figures.values()))
    metrics = {name: figure.to_json() for name, figure in figures.items()}
    return {**first.to_json(), "threshold": first.threshold, "metrics": metrics}


def table(found: Evaluation, graders: Sequence[str]) -> list[str]:
    """A line a measure, graders side by side: n correct / n, score in percent and its 95 % interval."""
    names = list(dict.fromkeys(n for g in graders for n in found.graded[g]))
    width = max(map(len, names))
    lines = [" " * width + "".join(f"  {grader:<34}" for grader in graders).rstrip()]
    for name in names:
        cells = (str(found.graded[g].get(name) or "-") for g in graders)
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:<34}" for cell in cells).rstrip())
    return lines


def missing_metrics(task: Task, found: Evaluation) -> list[str]:
    """A line for each grader of the task without figures: why it has none."""
    return [
        f"the {grader} grader ({', '.join(own)}) applies to none of these samples: no figures by it"
        for grader, own in task.graders.items()
        if grader not in found.graded
    ]
