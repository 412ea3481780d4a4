"""A run as its caller gets it: folder, checkpoint, final metrics, history. Read from the run's files. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlrft.config.renamed import migrate_metrics
from vlrft.reporting.files import read_log, read_summary
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST, METRICS, REPORT


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run."""

    folder: Path
    """The run's folder."""
    checkpoint: Path | None
    """The newest checkpoint, a plain transformers folder; None where none was written."""
    metrics: Mapping[str, float]
    """Name of a metric -> its value in the last evaluation, a share between 0 and 1."""
    steps: int
    """Steps that were done."""
    stopped: str | None = None
    """The reason that a callback gave for stopping the run; None for a complete run."""
    history: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """For each step: `stage`, `step`, and its metrics, as in metrics.jsonl."""
    evaluations: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """For each evaluation: `stage`, `step`, `split`, and `scores`, name of a metric -> correct, n, score, ci."""

    @property
    def earned_nothing(self) -> bool:
        """Whether completions were sampled, and none of them earned a reward in any step."""
        steps = [earned for row in self.history if (earned := earns_nothing(row)) is not None]
        return bool(steps) and all(steps)

    @property
    def report(self) -> Path:
        """The page of the run."""
        return self.folder / REPORT


def earns_nothing(row: Mapping[str, Any]) -> bool | None:
    """Whether all rewards of a step are 0, by its metrics; None for a step of demonstrations, which have no reward."""
    if "reward/mean" not in row:
        return None
    return bool(row["reward/mean"] == 0 and row.get("reward/std", 0) == 0)


def read_result(folder: Path, *, stopped: str | None = None) -> RunResult:
    """The result of the run in a folder, from its files. Raises StoredFileError for files that have been changed."""
    history = tuple(migrate_metrics(row) for _, row in read_log(folder, METRICS))
    summary = read_summary(folder) or {}
    evaluations = tuple(summary.get("evals", ()))
    last = folder / CHECKPOINTS / LAST
    scores = evaluations[-1]["scores"] if evaluations else {}
    return RunResult(
        folder=folder,
        checkpoint=last.with_name(last.resolve().name) if last.is_dir() else None,
        metrics={name: value["score"] for name, value in scores.items()},
        steps=int(history[-1]["step"]) if history else 0,
        stopped=stopped,
        history=history,
        evaluations=evaluations,
    )
