"""The profile of a run, `profile: true`: where the time of its steps goes.

In each stage the first step is not profiled, steps 2 and 3 are traced by torch (`profile_STAGE.json.gz`, for Perfetto or
chrome://tracing), and the later ones are timed by phase. `profile.md` has the phases and the slowest operators. On a GPU
each phase ends with a synchronisation, so that its time is its own: the run is somewhat slower, its results are the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from vlrft.distributed.phases import PhaseTimer

TRACED = 2  # steps of a stage that are traced
TRACE_SECONDS = 5.0  # the longest trace: one second can hold a hundred thousand events
OPERATORS = 15  # rows of the table
MARK = "phase: "  # prefix of phases in a trace
BETWEEN = {
    "evaluation",
    "save",
    "self_check",
}  # phases that belong to no step, as they do not come with each of them


@runtime_checkable
class Profiler(Protocol):
    """Iterates over the steps of a stage and may observe them."""

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]: ...


class NoProfiler:
    """Observes nothing."""

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]:
        return iter(steps)


OFF = NoProfiler()


class StepProfiler:
    """Writes `profile.md` and one trace per stage into the run's folder, over an older profile."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.sections: list[str] = []

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]:
        """Yields the steps in order; writes the profile after the last one."""
        traced = steps[1 : 1 + TRACED] or steps
        timed = steps[1 + TRACED :] or traced
        seconds: dict[str, float] = {}
        trace = Trace()
        for step in steps:
            if step == traced[0]:
                trace.start()
            phases = PhaseTimer(synchronize=synchronize, mark=trace.mark)
            with phases.running():
                yield step
            if step == traced[-1]:
                trace.stop()
            if step in timed:
                for path, elapsed in phases.seconds.items():
                    seconds[path] = seconds.get(path, 0.0) + elapsed
        if steps:
            file = f"profile_{file_label(stage)}.json.gz"
            trace.save(self.run / file)
            section = [f"## {stage}", "", phase_table(seconds, timed), ""]
            section += [
                f"Steps {_span(traced)}{trace.cut_short}, traced in `{file}`, by operator:",
                "",
            ]
            self.sections.append("\n".join([*section, trace.table(), ""]))
            (self.run / "profile.md").write_text("\n".join(["# Profile", "", *self.sections]))


def file_label(stage: str) -> str:
    """The stage's name as a part of a file's: up to 100 characters, without slashes and spaces."""
    return re.sub(r"[^\w.-]+", "_", stage)[:100]


class Trace:
    """A torch.profiler trace of some steps."""

    def __init__(self) -> None:
        kinds = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(ProfilerActivity.CUDA)
        self._profile: Any = profile(activities=kinds)
        self._until: float | None = None  # when a running trace must stop
        self.cut_short = ""

    def start(self) -> None:
        self._until = time.perf_counter() + TRACE_SECONDS
        self._profile.start()

    def stop(self) -> None:
        if self._until is not None:
            self._until = None
            self._profile.stop()

    def mark(self, path: str) -> AbstractContextManager[object]:
        """Marks a phase in the trace. A trace that is long enough stops at the beginning of a phase."""
        if self._until is not None and time.perf_counter() > self._until:
            self.stop()
            self.cut_short = f" (their first {TRACE_SECONDS:.0f} s)"
        return record_function(MARK + path)

    def save(self, path: Path) -> None:
        self._profile.export_chrome_trace(str(path))

    def table(self) -> str:
        """The slowest operators, by time on the device that ran them."""
        device = "device" if torch.cuda.is_available() else "cpu"
        column = f"self_{device}_time_total"
        events = [e for e in self._profile.key_averages() if not e.key.startswith(MARK)]
        total = sum(getattr(e, column) for e in events) or 1.0
        longest = sorted(events, key=lambda e: -getattr(e, column))[:OPERATORS]
        rows = [
            (e.key, str(e.count), f"{time_us / 1e3:.1f}", f"{100 * time_us / total:.1f} %")
            for e in longest
            if (time_us := getattr(e, column)) > 0
        ]
        return _markdown(("operator", "calls", "ms", "share"), rows)


def phase_table(seconds: Mapping[str, float], steps: Sequence[int]) -> str:
    """Seconds per step of each phase, without its inner phases; a bold row sums a top-level phase with its inner ones.
    Evaluations, checkpoints and the self-check are not part of a step: a line has their seconds."""
    between = {path: _between(path) for path in seconds}
    in_steps = {path: s for path, s in seconds.items() if not between[path]}
    total = sum(in_steps.values()) or 1.0
    rows = []
    for top in dict.fromkeys(path.split("/")[0] for path in in_steps):
        in_phase = {p: s for p, s in in_steps.items() if p == top or p.startswith(f"{top}/")}
        lines = [(f"**{top}**", sum(in_phase.values()))]
        if len(in_phase) > 1:
            inner = sorted(in_phase.items(), key=lambda item: -item[1])
            lines += [(f"{top}: outside inner phases" if p == top else p, s) for p, s in inner]
        rows += [(n, f"{s / len(steps):.4f}", f"{100 * s / total:.1f} %") for n, s in lines]
    head = f"Steps {_span(steps)}: {total / len(steps):.3f} s per step."
    others: dict[str, float] = {}
    for path, name in between.items():
        if name:
            others[name] = others.get(name, 0.0) + seconds[path]
    others_text = ", ".join(f"{name} {elapsed:.3f} s" for name, elapsed in others.items())
    note = f" In addition to the steps, in all: {others_text}." if others_text else ""
    return f"{head}{note}\n\n{_markdown(('phase', 's per step', 'share'), rows)}"


def _between(path: str) -> str:
    """The phase of `BETWEEN` that a path lies in; empty for a part of a step."""
    return next((name for name in path.split("/") if name in BETWEEN), "")


def synchronize() -> None:
    """Waits until the GPU, if there is one, is idle."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _span(steps: Sequence[int]) -> str:
    return f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else f"{steps[0]} alone"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
