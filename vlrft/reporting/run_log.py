"""The log of a run: jsonl files, summary.json, images, the console, and trackers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from vlrft.data.jsonl import append_rows
from vlrft.distributed.phases import phase
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.evaluation.evaluate import Evaluation
from vlrft.reporting.console import Console
from vlrft.reporting.files import (
    ImageStore,
    drop_later_steps,
    missing_steps,
    read_summary,
    rename_metrics,
    write_summary,
)
from vlrft.reporting.rows import gather_images, record_rows, rollout_rows
from vlrft.reporting.run_folder.names import EVALS, IMAGES, METRICS, ROLLOUTS, VALUES
from vlrft.reporting.trackers import build_trackers
from vlrft.schema import ENVIRONMENT, Group, Sample

PACKAGES = ("vlrft", "torch", "transformers", "numpy", "pillow")


class RunLog:
    """Writes the files of one run, its console output and its trackers.

    Ranks other than 0 write only the images of the episodes that they played, so that the loop need not know its rank.
    """

    def __init__(
        self,
        run: Path,
        *,
        task: str,
        algorithm: str,
        seed: int,
        total_steps: int,
        trackers: Sequence[str] = (),
        groups_per_step: int = 4,
        data: Mapping[str, str] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        """`data`: of each stage and of the evaluation, the number of samples and their hash, for summary.json."""
        self.run = run
        self.ranks = ranks
        self.groups_per_step = groups_per_step
        self.failed = set[str]()  # rewards that failed at least once
        self.images = ImageStore(run / IMAGES)
        self.console = Console(total_steps, quiet=not ranks.first)
        self.trackers = build_trackers(trackers, run) if ranks.first else []
        self.started = self.marked = time.perf_counter()
        self.summary: dict[str, Any] = {
            "task": task,
            "algorithm": algorithm,
            "seed": seed,
            "data": dict(data or {}),
            "seconds": {},
            "versions": _versions(),
            "evals": [],
        }

    def resume_from(self, step: int, *, fresh: bool) -> None:
        """Removes everything after `step` from the files, so that no step is written twice. `fresh`: removes
        all."""
        if not self.ranks.first:
            return
        last_step = -1 if fresh else step
        old = read_summary(self.run, "seconds", "evals")
        drop_later_steps(self.run, last_step)
        rename_metrics(self.run)
        if missing := missing_steps(self.run, last_step):
            self.message(
                f"{self.run / METRICS} has no rows of the steps {missing}: the report lacks them"
            )
        if old is not None and not fresh:
            self.summary["seconds"] = old["seconds"]
            self.summary["evals"] = [e for e in old["evals"] if e["step"] <= step]

    @phase("log")
    def step(
        self,
        stage: str,
        step: int,
        metrics: Mapping[str, float],
        groups: Sequence[Group],
        advantages: Sequence[Sequence[float] | np.ndarray],
        by_turn: Sequence[Sequence[Sequence[float]]] = (),
    ) -> None:
        """Logs a training step: a line of metrics, and the rollouts of the first `groups_per_step` groups.

        `advantages`: of rollouts [P][G]; `by_turn`: of the turns of episodes [P][G][K].
        """
        self._book_time(stage)
        rows = rollout_rows(groups[: self.groups_per_step], advantages, by_turn, self.images)
        rows = gather_images(rows, self.ranks)
        if not self.ranks.first:
            return
        append_rows(self.run / METRICS, [{"stage": stage, "step": step, **metrics}])
        append_rows(self.run / ROLLOUTS, [{"stage": stage, "step": step, **r} for r in rows])
        for tracker in self.trackers:
            tracker.log(metrics, step)
        self.console.step(stage, step, metrics)

    def evaluation(
        self,
        stage: str,
        step: int,
        split: str,
        result: Evaluation,
        samples: Sequence[Sample],
    ) -> None:
        """Logs an evaluation: every record, and its scores in summary.json. Its time is not part of the stage's."""
        self._book_time("evaluation")
        rows = record_rows(samples, result.records, self.images)
        rows = gather_images(rows, self.ranks)
        if not self.ranks.first:
            return
        head = {"stage": stage, "step": step, "split": split}
        append_rows(self.run / EVALS, [{**head, **row} for row in rows])
        values = {name: score.values for name, score in result.scores.items()}
        append_rows(self.run / VALUES, [{**head, "values": values}])
        self.summary["evals"].append({**head, "scores": result.to_json()})
        write_summary(self.run, self.summary)
        for tracker in self.trackers:
            tracker.log({f"eval/{k}": v.score for k, v in result.scores.items()}, step)
        self.console.evaluation(stage, step, result)

    def evaluating(self, done: int, total: int) -> None:
        """Shows how many samples of an evaluation are done."""
        self.console.evaluating(done, total)

    def report_failures(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Prints the error of each episode that its environment ended early, and the first failure of each reward whose
        failures do not stop the run; the metrics count all of them. Returns the groups."""
        for rollout in (r for g in groups for r in g.rollouts if r.errors):
            for name, error in rollout.errors.items():
                if name == ENVIRONMENT:
                    self.message(error)
                elif name not in self.failed:
                    self.failed.add(name)
                    applies = rollout.scores.get(name) is not None
                    effect = (
                        "counts 0.0 (on_error: zero)"
                        if applies
                        else "does not apply there (on_error: none)"
                    )
                    self.message(
                        f"{error}; it {effect}; further failures of this reward are only counted"
                    )
        return groups

    def message(self, text: str) -> None:
        """Prints a line for the user."""
        self.console.say(text)

    def close(self) -> None:
        """Writes the summary and closes console and trackers."""
        self._book_time("other")
        if self.ranks.first:
            write_summary(self.run, self.summary)
        for tracker in self.trackers:
            tracker.close()
        self.console.close()

    def _book_time(self, part: str) -> None:
        """Adds the time since the last call to a part of the run; set-up and saving are `other`."""
        now = time.perf_counter()
        seconds = self.summary["seconds"]
        seconds[part] = round(seconds.get(part, 0.0) + now - self.marked, 3)
        seconds["total"] = round(seconds.get("total", 0.0) + now - self.marked, 3)
        self.marked = now


def _versions() -> dict[str, str]:
    versions = {"python": python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
