"""A run's evaluations, read back from its folder as records: `runs/demo` is the last one, `runs/demo@40` that after step 40."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vlrft.data.jsonl import read_lines
from vlrft.reporting.run_folder.names import EVALS, LOGS
from vlrft.schema import DataError, Record
from vlrft.scoring.graders import STRICT


def evaluation_key(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """Stage, step and split of the evaluation that a row of evals.jsonl or values.jsonl belongs to."""
    return row["stage"], row["step"], row["split"]


def find_run_log(place: Path) -> tuple[Path, int | None] | None:
    """The evals.jsonl that `place` names, which may be a run's folder, its evals.jsonl, or either of them with `@STEP`; and
    the step. None where it names no run."""
    step = None
    written = re.fullmatch(r"(.+)@(\d{1,9})", place.name)
    if written is not None and not place.exists():
        place, step = Path(str(place).rpartition("@")[0]), int(written[2])
    file = place / EVALS if place.is_dir() else place
    if not file.is_file():
        return None
    first = next((row for _, row in read_lines(file)), {})
    is_log = {*LOGS[EVALS], "grades"} <= first.keys()
    return (file, step) if is_log else None


def read_evaluation(log: Path, step: int | None) -> list[Record]:
    """The records of a run's last evaluation, or of the last one after `step` steps; without the turns of episodes.

    Raises DataError for a step after which the run was not evaluated, and for a row that is no record.
    """
    rows = [row for _, row in read_lines(log, LOGS[EVALS])]
    keys = list(dict.fromkeys(map(evaluation_key, rows)))
    chosen = [key for key in keys if step is None or key[1] == step]
    if not chosen:
        steps = ", ".join(dict.fromkeys(str(key[1]) for key in keys))
        raise DataError(f"{log}: no evaluation after step {step}; there are some after {steps}")
    return [_record(row, log) for row in rows if evaluation_key(row) == chosen[-1]]


def headline_thresholds(
    summary: Mapping[str, Any], step: int | None, graders: Collection[str]
) -> dict[str, float]:
    """The threshold of each grader's first metric, in the summary's last evaluation, or the last one after `step` steps; without
    those of a summary that has none."""
    evaluations = [e for e in summary.get("evals", []) if step is None or e["step"] == step]
    scores = evaluations[-1]["scores"] if evaluations else {}
    firsts: dict[str, Mapping[str, Any]] = {}
    for name, score in scores.items():
        grader = next((g for g in graders if name.endswith(f" ({g})")), STRICT)
        firsts.setdefault(grader, score)
    return {g: first["threshold"] for g, first in firsts.items() if "threshold" in first}


def _record(row: Mapping[str, Any], log: Path) -> Record:
    try:
        return Record(
            id=row["id"],
            output=row["output"],
            grades={name: float(grade) for name, grade in row["grades"].items()},
            extracted=row["extracted"],
            scores=row.get("scores", {}),
            tags=row.get("tags", {}),
            answer=row["answer"],
            truncated=row.get("truncated", False),
            unreadable=row.get("unreadable", ""),
            errors=row.get("errors", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise DataError(f"{log}: a row is no record of a run ({type(e).__name__}: {e})") from e
