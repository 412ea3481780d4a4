"""`profile: true`: where the time of a run's steps goes.

Of each stage the first step is left alone, steps 2 and 3 are traced by torch (`profile_STAGE.json.gz`, for Perfetto or
chrome://tracing), and the others are timed by phase. `profile.md` holds the phases and the operators that took longest.
On a GPU each phase waits for the device, so that its time is its own: the run is somewhat slower, its numbers the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from vlrft.tracing.phases import PhaseTimer

TRACED = 2  # steps of a stage
TRACE_SECONDS = 5.0  # a trace ends here at the latest: a second can hold a hundred thousand events
OPERATORS = 15
MARK = "phase: "  # begins the names of phases in a trace


@runtime_checkable
class Profiler(Protocol):
    """Goes over the steps of a stage, and may look at what happens in them."""

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]: ...


class NoProfiler:
    """Looks at nothing."""

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]:
        return iter(steps)


OFF = NoProfiler()


class StepProfiler:
    """Writes into the folder of a run, where it replaces an older profile."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.sections: list[str] = []

    def over(self, stage: str, steps: Sequence[int]) -> Iterator[int]:
        """The steps in order; the profile is written when the last is done."""
        traced = steps[1 : 1 + TRACED] or steps
        timed = steps[1 + TRACED :] or traced
        seconds: dict[str, float] = {}
        trace = Trace()
        for step in steps:
            if step == traced[0]:
                trace.start()
            phases = PhaseTimer(settle=settle, mark=trace.mark)
            with phases.watching():
                yield step
            if step == traced[-1]:
                trace.stop()
            if step in timed:
                for path, own in phases.seconds.items():
                    seconds[path] = seconds.get(path, 0.0) + own
        if steps:
            file = f"profile_{stage}.json.gz"
            trace.save(self.run / file)
            told = [f"## {stage}", "", phase_table(seconds, timed), ""]
            told += [
                f"Steps {_span(traced)}{trace.cut_short}, traced in `{file}`, by operator:",
                "",
            ]
            self.sections.append("\n".join([*told, trace.table(), ""]))
            (self.run / "profile.md").write_text("\n".join(["# Profile", "", *self.sections]))


class Trace:
    """What torch recorded of some steps."""

    def __init__(self) -> None:
        kinds = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(ProfilerActivity.CUDA)
        self._profile: Any = profile(activities=kinds)
        self._until: float | None = None  # while it is recording
        self.cut_short = ""

    def start(self) -> None:
        self._until = time.perf_counter() + TRACE_SECONDS
        self._profile.start()

    def stop(self) -> None:
        if self._until is not None:
            self._until = None
            self._profile.stop()

    def mark(self, path: str) -> AbstractContextManager[object]:
        """A phase in the trace; where one begins, a trace that has grown long enough ends."""
        if self._until is not None and time.perf_counter() > self._until:
            self.stop()
            self.cut_short = f" (their first {TRACE_SECONDS:.0f} s)"
        return record_function(MARK + path)

    def save(self, path: Path) -> None:
        self._profile.export_chrome_trace(str(path))

    def table(self) -> str:
        """The operators that took longest, where they ran."""
        device = "device" if torch.cuda.is_available() else "cpu"
        column = f"self_{device}_time_total"
        events = [e for e in self._profile.key_averages() if not e.key.startswith(MARK)]
        whole = sum(getattr(e, column) for e in events) or 1.0
        longest = sorted(events, key=lambda e: -getattr(e, column))[:OPERATORS]
        rows = [
            (e.key, str(e.count), f"{own / 1e3:.1f}", f"{100 * own / whole:.1f} %")
            for e in longest
            if (own := getattr(e, column)) > 0
        ]
        return _markdown(("operator", "calls", "ms", "share"), rows)


def phase_table(seconds: Mapping[str, float], steps: Sequence[int]) -> str:
    """Seconds a step of each phase without those inside it, and what stands below each top-level one."""
    whole = sum(seconds.values()) or 1.0
    rows = []
    for top in dict.fromkeys(path.split("/")[0] for path in seconds):
        below = {p: s for p, s in seconds.items() if p == top or p.startswith(f"{top}/")}
        lines = [(f"**{top}**", sum(below.values()))]
        if len(below) > 1:
            inner = sorted(below.items(), key=lambda item: -item[1])
            lines += [(f"{top}: the rest" if p == top else p, s) for p, s in inner]
        rows += [(n, f"{s / len(steps):.4f}", f"{100 * s / whole:.1f} %") for n, s in lines]
    head = f"Steps {_span(steps)}: {whole / len(steps):.3f} s a step."
    return f"{head}\n\n{_markdown(('phase', 's a step', 'share'), rows)}"


def settle() -> None:
    """Waits for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _span(steps: Sequence[int]) -> str:
    return f"{steps[0]} to {steps[-1]}" if len(steps) > 1 else f"{steps[0]} alone"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
