"""The files of a run as data of its report. A file that does not exist (yet) is empty data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.config.renamed import migrate_metrics
from vlrft.config.yaml_tree import read_tree
from vlrft.evaluation.bootstrap import Interval, is_mean, paired_gain
from vlrft.reporting.files import read_log, read_summary
from vlrft.reporting.run_evaluations import evaluation_key
from vlrft.reporting.run_folder.names import CONFIG, EVALS, METRICS, ROLLOUTS, VALUES
from vlrft.schema.errors import StoredFileError

JsonRow = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunData:
    """All data of the report."""

    run: Path
    summary: JsonRow
    config: str
    metrics: list[JsonRow]
    rollouts: list[JsonRow]
    records: list[JsonRow]  # of the last evaluation
    published: JsonRow  # the config's `published`: the paper's results
    table: list[MetricLine]


@dataclass(frozen=True, kw_only=True)
class MetricLine:
    """One metric after one stage, and its gain over the evaluation before."""

    metric: str
    stage: str
    step: int
    correct: int
    n: int
    score: float
    ci: Interval | None  # None where it is not known
    gain: float | None = None
    gain_ci: Interval | None = None
    share: bool = True  # a share of 1, printed in percent
    paper: float | None = None  # the paper's value of the metric, on the line of the last stage

    @property
    def significant(self) -> bool:
        """Whether the paired 95 % interval of the gain excludes zero."""
        return self.gain_ci is not None and (self.gain_ci[0] > 0 or self.gain_ci[1] < 0)

    def format(self, value: float, *, sign: bool = False) -> str:
        """A value of the metric as text: a share in percent, another number with three decimals."""
        plus = "+" if sign else ""
        return f"{100 * value:{plus}.1f}" if self.share else f"{value:{plus}.3f}"


def read_run(run: Path) -> RunData:
    """Reads a run's folder. Raises StoredFileError when it is no run's folder."""
    config = run / CONFIG
    if not config.is_file():
        raise StoredFileError(f"{run}: no run here (config.yaml is missing)")
    summary = read_summary(run) or {}
    records = _lines(run, EVALS)
    settings = read_tree(config)
    published: JsonRow = settings.get("published") or {}
    last = evaluation_key(records[-1]) if records else None
    return RunData(
        run=run,
        summary=summary,
        config=config.read_text(encoding="utf-8"),
        metrics=[migrate_metrics(row) for row in _lines(run, METRICS)],
        rollouts=_lines(run, ROLLOUTS),
        records=[r for r in records if evaluation_key(r) == last],
        published=published,
        table=_table(summary.get("evals", []), _lines(run, VALUES), published),
    )


def _table(evals: list[JsonRow], values: list[JsonRow], published: JsonRow) -> list[MetricLine]:
    """Metric by metric, the last evaluation of each stage in the order of the stages, without scores that are null."""
    ends = list({e["stage"]: e for e in evals}.values())
    values_by_key = {evaluation_key(v): v["values"] for v in values}
    lines: list[MetricLine] = []
    for name in dict.fromkeys(name for e in ends for name in e["scores"]):
        before: list[float] | None = None
        for e in ends:
            score = e["scores"].get(name)
            if score is None or score["score"] is None:
                continue
            now = values_by_key.get(evaluation_key(e), {}).get(name)
            if now is not None and not is_mean(now, score["score"]):
                now = None
            pair = None
            if before is not None and now is not None and len(before) == len(now):
                pair = paired_gain(before, now)
            before = now
            lines.append(
                MetricLine(
                    metric=name,
                    stage=e["stage"],
                    step=e["step"],
                    correct=score["correct"],
                    n=score["n"],
                    score=score["score"],
                    ci=read_interval(score),
                    share=score.get("share", True),
                    gain=None if pair is None else pair[0],
                    gain_ci=None if pair is None else pair[1],
                    paper=published.get("scores", {}).get(name) if e is ends[-1] else None,
                )
            )
    return lines


def read_interval(score: JsonRow) -> Interval | None:
    """The 95 % interval of a score of summary.json; None where an end of it is null, as one that is not a number is stored."""
    low, high = score["ci"]
    return None if low is None or high is None else (low, high)


def _lines(run: Path, name: str) -> list[JsonRow]:
    return [row for _, row in read_log(run, name)]
