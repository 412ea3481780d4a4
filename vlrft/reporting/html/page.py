"""One self-contained HTML page of a run, and its before/after table as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlrft.data.atomic import write_atomically
from vlrft.data.jsonl import ENCODING, ERRORS
from vlrft.evaluation.evaluate import mean_score
from vlrft.reporting.html.cards import make_card, pick_rollouts
from vlrft.reporting.html.charts import Chart, draw
from vlrft.reporting.html.episodes import make_episode, split_episodes
from vlrft.reporting.html.run_data import (
    JsonRow,
    MetricLine,
    RunData,
    read_interval,
    read_run,
)
from vlrft.reporting.html.template import load_template
from vlrft.reporting.run_folder.mark import is_run
from vlrft.reporting.run_folder.names import PROFILE, REPORT, SUMMARY
from vlrft.schema import DataError

GALLERY = 24  # rollouts of training on the page
RANKED = 8  # best records and worst records on the page
LOGARITHMIC = ("entropy", "grad_norm", "loss")  # they fall by decades while a new model warms up
CHARTS = {
    "reward/mean": "Reward",
    "groups/valid_share": "Share of groups whose rewards differ",
    "loss": "Loss",
    "entropy": "Entropy of a token (nats)",
    "grad_norm": "Gradient norm",
    "length/mean": "Completion length (tokens)",
    "env/turns": "Turns of an episode",
    "env/valid": "Share of turns with a readable action",
    "env/truncated": "Share of episodes truncated at a limit",
    "length/turn_mean": "Length of a turn (tokens)",
    "sampler_gap/mean": "Sampler/trainer gap (log-prob)",
}


def write_report(run: Path) -> Path:
    """Writes RUN/report.html from the run's files. Raises DataError when the folder is no run's."""
    data = read_run(run)
    path = run / REPORT
    if path.exists() and not is_run(run):
        raise DataError(
            f"{run}: not the folder of a run, and it has a {REPORT} that vlrft may not have written"
        )
    single, episodes = split_episodes(pick_rollouts(data.rollouts, GALLERY))
    ranked = sorted(with_images(data.records), key=lambda r: -ranking_score(r))
    below_best = [r for r in ranked if ranking_score(r) < ranking_score(ranked[0])]
    best, best_episodes = split_episodes(ranked[:RANKED])
    worst, worst_episodes = split_episodes(below_best[::-1][:RANKED])
    html = load_template("page.html").render(
        data=data,
        profiled=(run / PROFILE).exists(),
        charts=[(chart.title, draw(chart)) for chart in charts(data)],
        rollouts=[make_card(run, row) for row in single],
        worst=[make_card(run, row) for row in worst],
        best=[make_card(run, row) for row in best],
        episodes=[make_episode(run, row) for row in episodes],
        worst_episodes=[make_episode(run, row) for row in worst_episodes],
        best_episodes=[make_episode(run, row) for row in best_episodes],
    )
    write_atomically(path, html.encode(ENCODING, ERRORS))
    return path


def with_images(records: Sequence[JsonRow]) -> Sequence[JsonRow]:
    """The records that have images; all where none has."""
    return [record for record in records if record["images"]] or records


def ranking_score(record: JsonRow) -> float:
    """The mean score; the strict grade of an episode, whose scores are not all grades (one may count turns)."""
    return (
        float(record["grades"]["strict"]) if record.get("turns") else mean_score(record["scores"])
    )


def summary_table(run: Path) -> str:
    """The before/after table as aligned text; a run without evaluations has none."""
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
    lines = read_run(run).table
    if not lines:
        return f"no evaluation: {run / SUMMARY} has none"
    for line in lines:
        name = "" if line.metric == before else line.metric
        before = line.metric
        paper = "" if line.paper is None else f"{line.paper:g}"
        correct = f"{line.correct}/{line.n}" if line.share else str(line.n)
        rows.append((name, line.stage, correct, *_score_cells(line), paper))
    if len(rows) == 1:
        return "no evaluations"
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def charts(data: RunData) -> list[Chart]:
    """Charts of the evaluations, then of the training metrics that the run has."""
    stages = _stages(data.metrics)
    out: list[Chart] = []
    evals: Sequence[JsonRow] = data.summary.get("evals", [])
    for name in dict.fromkeys(name for e in evals for name in e["scores"]):
        marks = [
            (e["step"], s["score"], low, high)
            for e in evals
            if (s := e["scores"].get(name)) is not None and s["score"] is not None
            for low, high in [read_interval(s) or (s["score"], s["score"])]
        ]
        if marks:
            out.append(Chart(title=f"Evaluation: {name}", marks=marks, stages=stages))
    prefixes = {"reward/": "Reward: ", "episode/": "Episodes: "}
    extra = {
        key: title + key.removeprefix(prefix)
        for prefix, title in prefixes.items()
        for key in sorted({k for row in data.metrics for k in row if k.startswith(prefix)})
        if key not in ("reward/mean", "reward/std")
    }
    for key, title in {**CHARTS, **extra}.items():
        split = key == "loss" and len(stages) > 1  # losses of different objectives share no axis
        for part in [[stage] for stage in stages] if split else [stages]:
            points = [
                (r["step"], r[key])
                for r in data.metrics
                if r.get(key) is not None and part[0][1] < r["step"] <= part[-1][2]
            ]
            name = f"{title}: {part[0][0]}" if split else title
            if points:
                log = key in LOGARITHMIC
                out.append(Chart(title=name, points=points, stages=part, log=log))
    return out


def _stages(metrics: Sequence[JsonRow]) -> list[tuple[str, float, float]]:
    """Name, step before the first, and last step of each stage."""
    ends: dict[str, tuple[float, float]] = {}
    for row in metrics:
        first, _ = ends.get(row["stage"], (row["step"] - 1, 0))
        ends[row["stage"]] = (first, row["step"])
    return [(name, first, last) for name, (first, last) in ends.items()]


def _score_cells(line: MetricLine) -> tuple[str, str, str]:
    interval = f"[{line.format(line.ci[0])}, {line.format(line.ci[1])}]" if line.ci else ""
    if line.gain is None or line.gain_ci is None:
        return line.format(line.score), interval, ""
    gain, low, high = (line.format(v, sign=True) for v in (line.gain, *line.gain_ci))
    return line.format(line.score), interval, f"{gain} [{low}, {high}]"
