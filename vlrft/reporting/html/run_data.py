"""A run's files, read for the report. Parts that are not there (yet) are empty."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vlrft.config.renamed import migrate_metrics
from vlrft.data.jsonl import whole_lines
from vlrft.evaluation.bootstrap import Interval, paired
from vlrft.schema import DataError

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Everything the report shows."""

    run: Path
    summary: Row
    config: str
    metrics: list[Row]
    rollouts: list[Row]
    records: list[Row]  # of the last evaluation
    published: Row  # what the config says of the paper
    table: list[Line]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure after one stage, with what changed since the evaluation before."""

    figure: str
    stage: str
    step: int
    correct: int
    n: int
    score: float
    ci: Interval
    gain: float | None = None
    gain_ci: Interval | None = None
    share: bool = True  # of 1, shown in percent
    paper: float | None = None  # what the paper reports for the figure, of the last stage

    @property
    def significant(self) -> bool:
        """Whether the paired 95 % interval of the gain leaves out zero."""
        return self.gain_ci is not None and (self.gain_ci[0] > 0 or self.gain_ci[1] < 0)

    def shown(self, value: float, *, sign: bool = False) -> str:
        """A value of the figure as a reader sees it."""
        plus = "+" if sign else ""
        return f"{100 * value:{plus}.1f}" if self.share else f"{value:{plus}.3f}"


def read_run(run: Path) -> RunData:
    """Raises DataError when the folder holds no run."""
    config = run / "config.yaml"
    if not config.is_file():
        raise DataError(f"{run}: no run here (config.yaml is missing)")
    summary = _json(run / "summary.json")
    records = _lines(run / "evals.jsonl")
    published: Row = (yaml.safe_load(config.read_text(encoding="utf-8")) or {}).get(
        "published"
    ) or {}
    last = _occasion(records[-1]) if records else None
    return RunData(
        run=run,
        summary=summary,
        config=config.read_text(encoding="utf-8"),
        metrics=[migrate_metrics(row) for row in _lines(run / "metrics.jsonl")],
        rollouts=_lines(run / "rollouts.jsonl"),
        records=[r for r in records if _occasion(r) == last],
        published=published,
        table=_table(summary.get("evals", []), _lines(run / "values.jsonl"), published),
    )


def _table(evals: list[Row], values: list[Row], published: Row) -> list[Line]:
    """The evaluations that end a stage (the last of each), figure by figure in order of time."""
    ends = list({e["stage"]: e for e in evals}.values())
    found = {_occasion(v): v["values"] for v in values}
    lines: list[Line] = []
    for name in dict.fromkeys(name for e in ends for name in e["scores"]):
        before: list[float] | None = None
        for e in ends:
            figure = e["scores"].get(name)
            if figure is None:
                continue
            now = found.get(_occasion(e), {}).get(name)
            pair = None
            if before is not None and now is not None and len(before) == len(now):
                pair = paired(before, now)
            before = now
            lines.append(
                Line(
                    figure=name,
                    stage=e["stage"],
                    step=e["step"],
                    correct=figure["correct"],
                    n=figure["n"],
                    score=figure["score"],
                    ci=(figure["ci"][0], figure["ci"][1]),
                    share=figure.get("share", True),
                    gain=None if pair is None else pair[0],
                    gain_ci=None if pair is None else pair[1],
                    paper=published.get("scores", {}).get(name) if e is ends[-1] else None,
                )
            )
    return lines


def _occasion(row: Row) -> tuple[str, int, str]:
    return row["stage"], row["step"], row["split"]


def _json(path: Path) -> Row:
    if not path.is_file():
        return {}
    found: Row = json.loads(path.read_text(encoding="utf-8"))
    return found


def _lines(path: Path) -> list[Row]:
    return [row for _, row in whole_lines(path)] if path.is_file() else []
