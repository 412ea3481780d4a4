"""Where a run leaves its traces: jsonl files, summary.json, pictures, the console, and trackers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from vlrft.data.jsonl import append, cut
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.evaluation.evaluate import Evaluation
from vlrft.reporting.console import Console
from vlrft.reporting.files import Pictures, read_summary, rename_metrics, write_summary
from vlrft.reporting.rows import record_rows, rollout_rows, with_all_pictures
from vlrft.reporting.trackers import build as build_trackers
from vlrft.schema import ENVIRONMENT, Group, Sample
from vlrft.tracing.phases import phase

PACKAGES = ("vlrft", "torch", "transformers", "numpy", "pillow")


class RunLog:
    """The traces of one run. Ranks other than 0 write no more than the pictures of what they played, so that the loop need
    not know its rank."""

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
        ranks: Ranks = ALONE,
    ) -> None:
        self.run = run
        self.ranks = ranks
        self.groups_per_step = groups_per_step
        self.failed = set[str]()  # rewards that failed at least once
        self.pictures = Pictures(run / "images")
        self.console = Console(total_steps, quiet=not ranks.first)
        self.trackers = build_trackers(trackers, run) if ranks.first else []
        self.started = self.marked = time.perf_counter()
        self.summary: dict[str, Any] = {
            "task": task,
            "algorithm": algorithm,
            "seed": seed,
            "seconds": {},
            "versions": _versions(),
            "evals": [],
        }

    def resume_from(self, step: int, *, fresh: bool) -> None:
        """Forgets everything after `step`, so that what follows is written once. `fresh`: forgets all."""
        if not self.ranks.first:
            return
        keep = -1 if fresh else step
        for name in ("metrics.jsonl", "rollouts.jsonl", "evals.jsonl", "values.jsonl"):
            cut(self.run / name, keep)
        rename_metrics(self.run / "metrics.jsonl")
        old = read_summary(self.run)
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
        """One training step: a line of metrics, the rollouts of a few groups. `advantages`: a rollout's [P][G]; `by_turn`:
        those of its turns [P][G][K], for plays of an environment."""
        self._spent(stage)
        rows = rollout_rows(groups[: self.groups_per_step], advantages, by_turn, self.pictures)
        rows = with_all_pictures(rows, self.ranks)
        if not self.ranks.first:
            return
        append(self.run / "metrics.jsonl", [{"stage": stage, "step": step, **metrics}])
        append(self.run / "rollouts.jsonl", [{"stage": stage, "step": step, **r} for r in rows])
        for tracker in self.trackers:
            tracker.log(metrics, step)
        self.console.step(stage, step, metrics)

    def evaluation(
        self,
        stage: str,
        step: int,
        split: str,
        found: Evaluation,
        samples: Sequence[Sample],
    ) -> None:
        """An evaluation: every record, its figures in summary.json. A stage's time does not include it."""
        self._spent("evaluation")
        rows = record_rows(samples, found.records, self.pictures)
        rows = with_all_pictures(rows, self.ranks)
        if not self.ranks.first:
            return
        head = {"stage": stage, "step": step, "split": split}
        append(self.run / "evals.jsonl", [{**head, **row} for row in rows])
        values = {name: f.values for name, f in found.scores.items()}
        append(self.run / "values.jsonl", [{**head, "values": values}])
        self.summary["evals"].append({**head, "scores": found.to_json()})
        write_summary(self.run, self.summary)
        for tracker in self.trackers:
            tracker.log({f"eval/{k}": f.score for k, f in found.scores.items()}, step)
        self.console.evaluation(stage, step, found)

    def failures(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Says each play that its environment cut short, and the first failure of each reward whose failures count 0.0; all
        are counted in the metrics."""
        for rollout in (r for g in groups for r in g.rollouts if r.errors):
            for name, error in rollout.errors.items():
                if name == ENVIRONMENT:
                    self.message(error)
                elif name not in self.failed:
                    self.failed.add(name)
                    self.message(f"{error}; it counts 0.0 (on_error: zero), as will the next ones")
        return groups

    def message(self, text: str) -> None:
        """Something a person should know."""
        self.console.say(text)

    def close(self) -> None:
        """Writes the summary and lets go of console and trackers."""
        self._spent("other")
        if self.ranks.first:
            write_summary(self.run, self.summary)
        for tracker in self.trackers:
            tracker.close()
        self.console.close()

    def _spent(self, what: str) -> None:
        """Books the time since the last entry; set-up and saving show as `other`."""
        now = time.perf_counter()
        seconds = self.summary["seconds"]
        seconds[what] = round(seconds.get(what, 0.0) + now - self.marked, 3)
        seconds["total"] = round(seconds.get("total", 0.0) + now - self.marked, 3)
        self.marked = now


def _versions() -> dict[str, str]:
    found = {"python": python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
