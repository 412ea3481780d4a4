"""Measurements of one side's step: seconds, processor seconds and peak memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)


class Meter:
    """Waits for a turn, measures it, and sends the result when the next turn could begin."""

    def __init__(self, connection: Connection, device: str = "cpu") -> None:
        self.connection = connection
        self.gpu = device != "cpu"  # memory is then what is allocated there
        self.result: dict[str, Any] = {}
        self._start = self._cpu_start = 0.0
        self._baseline = 0

    def wait(self) -> None:
        """Send the latest result, which also says that the side is ready, and block. Ends the process when no turn is left."""
        self.connection.send(self.result)
        try:
            self.connection.recv()
        except EOFError:
            raise SystemExit(0) from None
        self.result = {}
        self.start()

    def start(self) -> None:
        """Start the measurement; the earlier part of this turn does not count."""
        if self.gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._baseline = torch.cuda.memory_allocated() // 1024
        else:
            ctypes.CDLL(None).malloc_trim(
                0
            )  # freed memory that is still held would count as in use
            CLEAR.write_text(RESET_PEAK)
            self._baseline = _kilobytes("VmRSS")
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self._start
        cpu_seconds = time.process_time() - self._cpu_start
        peak = torch.cuda.max_memory_allocated() // 1024 if self.gpu else _kilobytes("VmHWM")
        self.result |= {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,  # of all threads; other work on the machine hardly moves it
            "megabytes": (peak - self._baseline) / 1024,
            "baseline_megabytes": self._baseline / 1024,
        }

    def note(self, values: Mapping[str, Any]) -> None:
        """Add values to the result."""
        self.result |= values


def _kilobytes(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])
