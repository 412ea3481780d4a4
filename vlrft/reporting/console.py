"""Progress of a run on stderr: a live bar on a terminal, plain lines elsewhere. In a notebook: a line that changes."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from rich.console import Console as Rich
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from vlrft.evaluation.evaluate import Evaluation
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.schema.secrets import redact
from vlrft.schema.terminal import guard_streams, raw_stream, show_controls

PLAIN_EVERY_SECONDS = 10.0
WIDE = 120  # columns of a terminal on which the bar has its full width
NARROW_BAR = 10
FULL_BAR = 40
LABEL = 12  # characters of a stage's name
BESIDE = LABEL + 7 + 9 + 4  # columns beside bar and metrics: name, time left, steps, spaces
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
        self.cell = None if quiet or not self.rich.is_jupyter else NotebookLine()
        self.bar_width = FULL_BAR if self.rich.width >= WIDE else NARROW_BAR
        if self.rich.is_terminal and not quiet and self.cell is None:
            self.progress = Progress(
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=self.bar_width),
                MofNCompleteColumn(table_column=Column(no_wrap=True)),
                TimeRemainingColumn(table_column=Column(no_wrap=True)),
                TextColumn("{task.fields[metrics]}", table_column=Column(no_wrap=True)),
                console=self.rich,
            )
            self.bar = self.progress.add_task("start", total=total_steps, metrics="")
            self.progress.start()  # it takes over stdout and stderr until it is stopped
            guard_streams()

    def step(self, stage: str, step: int, metrics: Mapping[str, float]) -> None:
        """Updates the bar, or prints a line with the metrics of COLUMNS at most every PLAIN_EVERY_SECONDS."""
        values = [f"{label} {metrics[k]:.3g}" for k, label in COLUMNS.items() if k in metrics]
        speed = metrics.get("speed/rollout_tokens_s", 0) + metrics.get("speed/update_tokens_s", 0)
        values.append(f"{speed:,.0f} tok/s")
        text = "  ".join(values)
        if self.first is None:
            self.first = step - 1
            if self.progress is not None:  # else the steps done before would count as speed
                self.progress.reset(self.bar, completed=self.first, metrics="")
        if self.progress is not None:
            fitting = fit(values, self.rich.width - BESIDE - self.bar_width)
            self.progress.update(
                self.bar, description=stage[:LABEL], completed=step, metrics=fitting
            )
            return
        now = time.monotonic()
        left = (now - self.started) / max(step - self.first, 1) * (self.total - step)
        line = f"{stage} step {step}/{self.total}  {text}  {left:.0f} s left"
        if self.cell is not None:
            self.cell.show(line)
        elif now - self.last_line >= PLAIN_EVERY_SECONDS or step == self.total:
            self.last_line = now
            self.say(line)

    def evaluating(self, done: int, total: int) -> None:
        """Shows how far an evaluation is, which may take longer than many steps. `done`, `total`: samples."""
        text = f"{done:,} of {total:,} samples"
        if self.progress is not None:
            self.progress.update(self.bar, description="evaluation", metrics=text)
        elif self.cell is not None:
            self.cell.show(f"evaluation: {text}")
        elif 0 < done < total and time.monotonic() - self.last_line >= PLAIN_EVERY_SECONDS:
            self.last_line = time.monotonic()
            self.say(f"evaluation: {text}")

    def evaluation(self, stage: str, step: int, result: Evaluation) -> None:
        """Prints the scores of an evaluation in one line."""
        scores = "  ".join(
            f"{k} {100 * v.score:.1f} ({v.correct}/{v.n})" if v.share else f"{k} {v.score:.3f}"
            for k, v in result.scores.items()
        )
        if self.progress is not None:
            self.progress.update(self.bar, description=stage[:LABEL], metrics="")
        elif self.cell is not None:
            self.cell.show(f"{stage} step {step}/{self.total}")
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
        elif self.cell is not None:
            print(text, flush=True)  # notebooks print stderr on red
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the bar; messages after it are plain lines."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


class NotebookLine:
    """A line in the output of a notebook's cell that is replaced by the next one."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str) -> None:
        ipython = import_module("IPython.display")
        content = {"text/plain": show_controls(redact(text))}
        if self.handle is None:
            self.handle = ipython.display(content, raw=True, display_id=True)
        else:
            ipython.update_display(content, raw=True, display_id=self.handle.display_id)


def fit(values: Sequence[str], width: int) -> str:
    """The first values that fit into so many columns, two spaces between them."""
    text = ""
    for value in values:
        longer = f"{text}  {value}" if text else value
        if len(longer) > width:
            break
        text = longer
    return text
