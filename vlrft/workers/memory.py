"""The memory that a worker process uses, as the operating system measures it (Linux; 0 elsewhere).

Resident memory is counted, not the address space: CUDA reserves hundreds of gigabytes of addresses that it never uses.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

CHECK_SECONDS = 0.1  # between measurements of a process that works on a call
SHARE = 0.5  # of the machine's memory, the limit of one worker unless the config says otherwise
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def exceeds(pid: int, limit: int | None) -> int:
    """The bytes that a process and its descendants use, if that is more than the limit; otherwise 0.

    Resident memory is summed, which counts pages twice that a fork shares; a sum above the limit is measured again with
    shared pages divided among their users.
    """
    if limit is None:
        return 0
    pids = [pid, *descendants(pid)]
    if sum(map(_resident_bytes, pids)) <= limit:
        return 0
    used = sum(map(_proportional_bytes, pids))
    return used if used > limit else 0


def in_gigabytes(size: int) -> str:
    return f"{size / 2**30:.2f} GB"


@cache
def default_limit() -> int:
    """Half of the memory of this machine, or of the container that it runs in."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # "max": no limit
            sizes.append(int(Path(path).read_text()))
    return int(SHARE * min(sizes))


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):  # it has ended
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return _resident_bytes(pid)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have started. Linux; none elsewhere."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found + [child for parent in found for child in descendants(parent)]
