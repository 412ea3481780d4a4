"""A memory plan: for each phase of a stage the bytes that are held at its peak, by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vlrft.memory.rank_memory import PartBytes

PARTS = (
    "weights",
    "gathered weights",
    "unpacked weights",
    "float32 copies",
    "reference weights",
    "gradients",
    "communication buckets",
    "optimiser moments",
    "activations",
    "logits",
    "keys and values",
    "pixels and features",
    "checkpoint copy",
)
FILL_LIMIT = 0.9  # share of a device's memory that a plan may fill; the rest is for the libraries and fragmentation


Moments = Mapping[str, PartBytes]
"""Bytes by part at each moment of a phase, by the moment's name."""


@dataclass(frozen=True, kw_only=True)
class MemoryPhase:
    """Bytes by part at the peak of a phase; parts of 0 bytes are left out."""

    name: str
    moment: str  # of the peak
    parts: PartBytes = field(default_factory=dict[str, int])
    host: PartBytes = field(default_factory=dict[str, int])  # in host memory

    @property
    def total(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True)
class MemoryPlan:
    """The phases of a stage."""

    phases: tuple[MemoryPhase, ...]

    @property
    def peak(self) -> MemoryPhase:
        return max(self.phases, key=lambda phase: phase.total)

    def fits(self, memory: int) -> bool:
        return self.peak.total <= FILL_LIMIT * memory


def find_peak(name: str, moments: Moments) -> MemoryPhase:
    """The phase of that name at the moment with the most bytes."""
    moment = max(moments, key=lambda m: sum(moments[m].values()))
    parts = {part: size for part, size in moments[moment].items() if size}
    return MemoryPhase(name=name, moment=moment, parts=parts)


def format_bytes(size: float) -> str:
    """`1.25 GiB`, `310 MiB`: about three digits."""
    if size >= 2**30:
        return f"{size / 2**30:.2f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.0f} MiB" if size >= 10 * 2**20 else f"{size / 2**20:.1f} MiB"
    return f"{size / 2**10:.0f} KiB"
