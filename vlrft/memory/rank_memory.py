"""What one rank holds of a policy and of its training, told by its engine; all else of a plan is the same with any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PartBytes = Mapping[str, int]  # bytes by part, as `plan.PARTS` names them


def none() -> dict[str, int]:
    return {}


@dataclass(frozen=True, kw_only=True)
class GradientMemory:
    """Gradients between and at the end of backward passes, where they are not `held` all along."""

    fresh: int  # one micro-batch's, when its backward pass ends
    summed: int  # what the micro-batches before have left
    in_place: bool  # a backward pass adds to that sum, and has no other place for its own

    def at_end(self, before: int) -> int:
        """When a backward pass ends that found `before`."""
        return self.fresh if self.in_place else before + self.fresh


@dataclass(frozen=True, kw_only=True)
class RankMemory:
    """Bytes of a rank. What is not `held` comes besides it, in the moments that its name says."""

    held: PartBytes  # all along, the optimiser having its moments
    gradients: GradientMemory
    moments_from_start: bool = False  # the moments are there before the first step
    passes: PartBytes = field(default_factory=none)  # forward and backward passes of an update
    backward: PartBytes = field(default_factory=none)  # from the first gradient on
    reducing: PartBytes = field(default_factory=none)  # gradients go to other ranks
    reduce_from: float = 1.0  # of a backward pass, when they first do
    step: PartBytes = field(default_factory=none)  # the optimiser's step
    self_check: PartBytes = field(default_factory=none)  # the self-check
    sampling: PartBytes = field(default_factory=none)  # rollouts and evaluations
    gathering: PartBytes = field(default_factory=none)  # what is saved, a tensor at a time
    host: PartBytes = field(default_factory=none)  # the machine's memory, all along
    saving: PartBytes = field(
        default_factory=none
    )  # the machine's, of the first rank while it saves


def add_parts(*parts: PartBytes) -> dict[str, int]:
    """Each part summed."""
    found: dict[str, int] = {}
    for some in parts:
        for name, size in some.items():
            found[name] = found.get(name, 0) + size
    return found


def merge_host_memory(share: RankMemory) -> RankMemory:
    """On a CPU what an engine puts into the machine's memory lies beside everything else."""
    return replace(share, held=add_parts(share.held, share.host), host={})
