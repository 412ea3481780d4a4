"""One self-contained HTML page of a run, and its before/after table as plain text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from vlrft.evaluation.evaluate import mean_score
from vlrft.reporting.html.cards import card, pick
from vlrft.reporting.html.charts import Chart, draw
from vlrft.reporting.html.episodes import episode, split
from vlrft.reporting.html.run_data import Line, Row, RunData, read_run

GALLERY = 24
RANKED = 8  # best and worst records that are shown
LOGARITHMIC = ("entropy", "grad_norm", "loss")  # fall by decades while a new model warms up
CHARTS = {
    "reward/mean": "Reward",
    "groups/valid_share": "Share of groups that teach",
    "loss": "Loss",
    "entropy": "Entropy of a token (nats)",
    "grad_norm": "Gradient norm",
    "length/mean": "Completion length (tokens)",
    "env/turns": "Turns of a play",
    "env/valid": "Share of turns with a readable action",
    "env/cut": "Share of plays cut at the limit of turns",
    "length/turn_mean": "Length of a turn (tokens)",
    "sampler_gap/mean": "Sampler/trainer gap (log-prob)",
}


def write_report(run: Path) -> Path:
    """Writes RUN/report.html from the run's files. Raises DataError when the folder holds no run."""
    data = read_run(run)
    pages = Environment(
        loader=PackageLoader("vlrft.reporting.html"), autoescape=True, undefined=StrictUndefined
    )
    single, plays = split(pick(data.rollouts, GALLERY))
    shown = [r for r in data.records if r["images"] or not any(x["images"] for x in data.records)]
    ranked = sorted(shown, key=lambda r: -worth(r))
    below = [r for r in ranked if worth(r) < worth(ranked[0])]
    html = pages.get_template("page.html").render(
        data=data,
        profiled=(run / "profile.md").exists(),
        charts=[(chart.title, draw(chart)) for chart in charts(data)],
        rollouts=[card(run, row) for row in single],
        worst=[card(run, row) for row in split(below[::-1][:RANKED])[0]],
        best=[card(run, row) for row in split(ranked[:RANKED])[0]],
        plays=[episode(run, row) for row in plays],
        lost=[episode(run, row) for row in split(below[::-1][:RANKED])[1]],
        won=[episode(run, row) for row in split(ranked[:RANKED])[1]],
    )
    path = run / "report.html"
    draft = run / ".report.html"
    draft.write_text(html, encoding="utf-8")
    os.replace(draft, path)
    return path


def worth(record: Row) -> float:
    """What ranks a record: of a play the strict grade, for its scores are of several kinds."""
    return (
        float(record["grades"]["strict"]) if record.get("turns") else mean_score(record["scores"])
    )


def summary_table(run: Path) -> str:
    """The before/after table as aligned text."""
    rows: list[tuple[str, ...]] = [
        (
            "",
            "stage",
            "correct",
            "score",
            "95 % interval",
            "gain (paired 95 % interval)",
            "paper",
        )
    ]
    before = None
    for line in read_run(run).table:
        name = "" if line.figure == before else line.figure
        before = line.figure
        paper = "" if line.paper is None else f"{line.paper:g}"
        correct = f"{line.correct}/{line.n}" if line.share else str(line.n)
        rows.append((name, line.stage, correct, *_figures(line), paper))
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def charts(data: RunData) -> list[Chart]:
    """Evaluations first, then the curves that the run has."""
    stages = _stages(data.metrics)
    found: list[Chart] = []
    evals: Sequence[Row] = data.summary.get("evals", [])
    for name in dict.fromkeys(name for e in evals for name in e["scores"]):
        marks = [
            (e["step"], s["score"], s["ci"][0], s["ci"][1])
            for e in evals
            if (s := e["scores"].get(name)) is not None
        ]
        found.append(Chart(title=f"Evaluation: {name}", marks=marks, stages=stages))
    parts = {"reward/": "Reward: ", "play/": "Plays: "}
    extra = {
        key: title + key.removeprefix(prefix)
        for prefix, title in parts.items()
        for key in sorted({k for row in data.metrics for k in row if k.startswith(prefix)})
        if key not in ("reward/mean", "reward/std")
    }
    for key, title in {**CHARTS, **extra}.items():
        named = key == "loss" and len(stages) > 1  # objectives differ: their losses share no axis
        for own in [[stage] for stage in stages] if named else [stages]:
            points = [
                (r["step"], r[key])
                for r in data.metrics
                if r.get(key) is not None and own[0][1] < r["step"] <= own[-1][2]
            ]
            name = f"{title}: {own[0][0]}" if named else title
            if points:
                log = key in LOGARITHMIC
                found.append(Chart(title=name, points=points, stages=own, log=log))
    return found


def _stages(metrics: Sequence[Row]) -> list[tuple[str, float, float]]:
    ends: dict[str, tuple[float, float]] = {}
    for row in metrics:
        first, _ = ends.get(row["stage"], (row["step"] - 1, 0))
        ends[row["stage"]] = (first, row["step"])
    return [(name, first, last) for name, (first, last) in ends.items()]


def _figures(line: Line) -> tuple[str, str, str]:
    interval = f"[{line.shown(line.ci[0])}, {line.shown(line.ci[1])}]"
    if line.gain is None or line.gain_ci is None:
        return line.shown(line.score), interval, ""
    gain, low, high = (line.shown(v, sign=True) for v in (line.gain, *line.gain_ci))
    return line.shown(line.score), interval, f"{gain} [{low}, {high}]"
