"""Peak memory of a phase: resident memory of the process on a CPU, allocated memory on a GPU."""

from __future__ import annotations

import gc
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)


def status_bytes(key: str) -> int:
    """A size of this process, such as VmRSS, that the kernel reports."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024


class PeakMeter:
    """Peak memory in bytes above the level at construction."""

    def __init__(self, gpu: bool) -> None:
        self.gpu = gpu
        gc.collect()
        self.base = torch.cuda.memory_allocated() if gpu else status_bytes("VmRSS")

    def reset(self) -> None:
        gc.collect()
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            CLEAR.write_text(RESET_PEAK)

    def peak(self) -> int:
        return (
            torch.cuda.max_memory_allocated() if self.gpu else status_bytes("VmHWM")
        ) - self.base
