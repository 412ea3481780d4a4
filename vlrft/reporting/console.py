"""Progress of a run on stderr: a live bar on a terminal, plain lines elsewhere."""

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
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.schema.secrets import redact
from vlrft.schema.terminal import guard_streams, raw_stream, show_controls

PLAIN_EVERY_SECONDS = 10.0
COLUMNS = {
    "reward/mean": "reward",
    "groups/valid_share": "valid",
    "loss": "loss",
    "grad_norm": "grad",
    "entropy": "entropy",
}


class Console:
    """Progress output of a run: one update a step, a line for each evaluation, and messages."""

    def __init__(self, total_steps: int, *, quiet: bool = False) -> None:
        self.total = total_steps
        self.quiet = quiet
        self.rich = Rich(file=raw_stream(sys.stderr), highlight=False)
        self.progress: Progress | None = None
        self.started = time.monotonic()
        self.first: int | None = None
        """The number of steps done before the first one reported; not 0 for a resumed run."""
        self.last_line = -math.inf
        if self.rich.is_terminal and not quiet:
            self.progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[metrics]}"),
                console=self.rich,
            )
            self.bar = self.progress.add_task("start", total=total_steps, metrics="")
            self.progress.start()  # it takes over stdout and stderr until it is stopped
            guard_streams()

    def step(self, stage: str, step: int, metrics: Mapping[str, float]) -> None:
        """Updates the bar, or prints a line with the metrics of COLUMNS at most every PLAIN_EVERY_SECONDS."""
        values = [f"{label} {metrics[k]:.3g}" for k, label in COLUMNS.items() if k in metrics]
        speed = metrics.get("speed/rollout_tokens_s", 0) + metrics.get("speed/update_tokens_s", 0)
        text = "  ".join([*values, f"{speed:,.0f} tok/s"])
        if self.first is None:
            self.first = step - 1
            if self.progress is not None:  # else the steps done before would count as speed
                self.progress.reset(self.bar, completed=self.first, metrics="")
        if self.progress is not None:
            self.progress.update(self.bar, description=stage, completed=step, metrics=text)
            return
        now = time.monotonic()
        if now - self.last_line >= PLAIN_EVERY_SECONDS or step == self.total:
            self.last_line = now
            left = (now - self.started) / max(step - self.first, 1) * (self.total - step)
            self.say(f"{stage} step {step}/{self.total}  {text}  {left:.0f} s left")

    def evaluation(self, stage: str, step: int, result: Evaluation) -> None:
        """Prints the scores of an evaluation in one line."""
        scores = "  ".join(
            f"{k} {100 * v.score:.1f} ({v.correct}/{v.n})" if v.share else f"{k} {v.score:.3f}"
            for k, v in result.scores.items()
        )
        self.say(f"evaluation after {stage} (step {step}): {scores}")
        for line in unreadable_lines(result.records):
            self.say(f"  {line}")

    def say(self, text: str) -> None:
        """Prints a message as it is, above the bar where there is one."""
        if self.quiet:
            return
        text = show_controls(redact(text))
        if self.progress is not None:
            self.progress.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the bar; messages after it are plain lines."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
