"""The memory that one rank may use: a size that the user gives, or that of this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from vlrft.memory.plan import format_bytes
from vlrft.schema.errors import ConfigError

BYTES_FROM = 1e6  # a smaller number without a unit is in GiB
UNITS = {"": 1, "b": 1}
UNITS |= {f"{k}b": 1000**n for n, k in enumerate("kmgt", 1)}
UNITS |= {f"{k}ib": 1024**n for n, k in enumerate("kmgt", 1)}
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
MEMINFO = Path("/proc/meminfo")  # sizes in KiB


def available_memory(memory: str | None, device: str, ranks: int = 1) -> tuple[int, str]:
    """Bytes that a rank may use, and of which device in words: `memory`, or a GPU's own, or the rank's part of the host's.

    `ranks`: those on this machine. Raises ConfigError for a GPU that this machine lacks, where `memory` is None.
    """
    kind = "a GPU" if device.startswith("cuda") else "a CPU"
    if memory is not None:
        size = parse_size(memory)
        return size, f"{kind} with {format_bytes(size)}"
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise ConfigError(
                ["device=cuda, but this machine has no GPU: give --memory, such as 80GiB"]
            )
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        return int(gpu.total_memory), f"{gpu.name} with {format_bytes(gpu.total_memory)}"
    size = host_memory()
    shared = "" if ranks == 1 else f", shared by {ranks} ranks"
    return size // ranks, f"this CPU with {format_bytes(size)}{shared}"


def host_memory() -> int:
    """Bytes of this machine's memory, or of the control group (a container's limit) that this process is in."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [path.read_text().strip() for path in map(Path, CGROUP_LIMITS) if path.is_file()]
    return min([size, *(int(limit) for limit in limits if limit.isdigit())])  # or `max`: no limit


def free_memory(device: str) -> int:
    """Bytes of the device that no process holds at the moment; on a CPU those that can be had without swapping."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info()[0])
    fields = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    return min(int(fields["MemAvailable"].split()[0]) * 1024, host_memory())


def parse_size(text: str) -> int:
    """Bytes of `80GiB`, `24 GB`, `512MiB`; a plain number is in bytes, or in GiB where so few bytes would be no memory.

    Raises ConfigError for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in UNITS or float(match[1]) == 0:
        raise ConfigError([f"--memory {text}: expected a size such as 80GiB or 24GB"])
    if not match[2] and float(match[1]) < BYTES_FROM:
        return int(float(match[1]) * UNITS["gib"])
    return int(float(match[1]) * UNITS[match[2].lower()])
