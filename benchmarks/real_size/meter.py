"""Peak memory, seconds and processor seconds of each phase of a run in this process."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vlrft.distributed.phases import ROOT, PhaseTimer

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)


class Meter:
    """Peaks of resident memory by path of phases, each without the phases inside it."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self.wall: dict[str, float] = {}
        self._open = [ROOT]
        self._since = time.perf_counter()
        self.timer = PhaseTimer(time.process_time, mark=self._phase)

    @contextmanager
    def running(self) -> Iterator[Meter]:
        self._begin()
        with self.timer.running():
            yield self
        self._note()

    @contextmanager
    def _phase(self, path: str) -> Iterator[None]:
        self._note()
        self._open.append(path)
        try:
            yield
        finally:
            self._note()
            self._open.pop()

    def _note(self) -> None:
        """Books the time and the peak since the last call under the innermost phase."""
        path, now = self._open[-1], time.perf_counter()
        self.wall[path] = self.wall.get(path, 0.0) + now - self._since
        self.peaks[path] = max(self.peaks.get(path, 0), resident_bytes("VmHWM"))
        self._begin()

    def _begin(self) -> None:
        CLEAR.write_text(RESET_PEAK)
        self._since = time.perf_counter()

    def summary(self, baseline: int) -> dict[str, Mapping[str, Any]]:
        """Bytes above `baseline`, seconds and processor seconds by path."""
        return {
            path: {
                "peak": peak - baseline,
                "seconds": self.wall[path],
                "cpu_seconds": self.timer.seconds.get(path, 0.0),
            }
            for path, peak in self.peaks.items()
        }


def resident_bytes(key: str = "VmRSS") -> int:
    """Resident bytes of this process: `VmRSS` now, `VmHWM` at their peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024


def free_memory() -> None:
    """Returns unused memory to the system, so that what is resident is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
