"""Progress on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping

from rich.console import Console as Rich
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from vlrft.evaluation.evaluate import Evaluation

PLAIN_EVERY_SECONDS = 10.0
COLUMNS = {
    "reward/mean": "reward",
    "groups/valid_share": "valid",
    "loss": "loss",
    "grad_norm": "grad",
    "entropy": "entropy",
}


class Console:
    """What a person sees while a run goes on."""

    def __init__(self, total_steps: int, *, quiet: bool = False) -> None:
        self.total = total_steps
        self.quiet = quiet
        self.rich = Rich(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self.started = time.monotonic()
        self.first: int | None = (
            None  # steps done before; a run that is taken up does not start at 0
        )
        self.last_line = -math.inf
        if self.rich.is_terminal and not quiet:
            self.progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[figures]}"),
                console=self.rich,
            )
            self.bar = self.progress.add_task("start", total=total_steps, figures="")
            self.progress.start()

    def step(self, stage: str, step: int, metrics: Mapping[str, float]) -> None:
        shown = [f"{label} {metrics[k]:.3g}" for k, label in COLUMNS.items() if k in metrics]
        speed = metrics.get("speed/rollout_tokens_s", 0) + metrics.get("speed/update_tokens_s", 0)
        figures = "  ".join([*shown, f"{speed:,.0f} tok/s"])
        if self.first is None:
            self.first = step - 1
            if self.progress is not None:  # or the steps done before would count as speed
                self.progress.reset(self.bar, completed=self.first, figures="")
        if self.progress is not None:
            self.progress.update(self.bar, description=stage, completed=step, figures=figures)
            return
        now = time.monotonic()
        if now - self.last_line >= PLAIN_EVERY_SECONDS or step == self.total:
            self.last_line = now
            left = (now - self.started) / max(step - self.first, 1) * (self.total - step)
            self.say(f"{stage} step {step}/{self.total}  {figures}  {left:.0f} s left")

    def evaluation(self, stage: str, step: int, found: Evaluation) -> None:
        scores = "  ".join(
            f"{k} {100 * f.score:.1f} ({f.correct}/{f.n})" if f.share else f"{k} {f.score:.3f}"
            for k, f in found.scores.items()
        )
        self.say(f"evaluation after {stage} (step {step}): {scores}")

    def say(self, text: str) -> None:
        if self.quiet:
            return
        if self.progress is not None:
            self.progress.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
