"""Memory of one rank that its train engine decides: weights, gradients, optimiser, buffers. The rest of a plan is the same
for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PartBytes = Mapping[str, int]  # bytes by part, as `plan.PARTS` names them


def no_parts() -> dict[str, int]:
    return {}


@dataclass(frozen=True, kw_only=True)
class GradientMemory:
    """Gradients during the micro-batches of an update, where they are not part of `RankMemory.held`."""

    fresh: int  # of one micro-batch, when its backward pass ends
    summed: int  # over the micro-batches before it
    in_place: bool  # a backward pass adds to the sum and needs no second buffer

    def at_end(self, before: int) -> int:
        """At the end of a backward pass that began with `before` bytes of gradients."""
        return self.fresh if self.in_place else before + self.fresh


@dataclass(frozen=True, kw_only=True)
class RankMemory:
    """Memory of one rank, in bytes. `held` is allocated for the whole run; every other field only during the phase it is
    named after."""

    held: PartBytes  # the optimiser's moments included
    gradients: GradientMemory
    moments_from_start: bool = False  # the optimiser's moments exist before its first step
    passes: PartBytes = field(default_factory=no_parts)  # forward and backward passes of an update
    backward: PartBytes = field(default_factory=no_parts)  # from an update's first gradient on
    reducing: PartBytes = field(default_factory=no_parts)  # while gradients are sent to other ranks
    reduce_from: float = 1.0  # share of the backward pass that is done when that begins
    step: PartBytes = field(default_factory=no_parts)  # the optimiser's step
    self_check: PartBytes = field(default_factory=no_parts)
    sampling: PartBytes = field(default_factory=no_parts)  # rollouts and evaluations
    reading: PartBytes = field(default_factory=no_parts)
    """While a rollout engine with weights of its own reads the policy's, one part of the model at a time."""
    gathering: PartBytes = field(default_factory=no_parts)  # saving, one tensor at a time
    host: PartBytes = field(default_factory=no_parts)  # host memory, for the whole run
    saving: PartBytes = field(default_factory=no_parts)  # host memory of the first rank, saving
    checkpoint: PartBytes = field(default_factory=no_parts)
    """The optimiser's part of a checkpoint, as far as it is not in `saving` already."""


def add_parts(*parts: PartBytes) -> dict[str, int]:
    """The sum of each part."""
    total: dict[str, int] = {}
    for sizes in parts:
        for name, size in sizes.items():
            total[name] = total.get(name, 0) + size
    return total


def merge_host_memory(rank: RankMemory) -> RankMemory:
    """The memory of a rank on a CPU, where device memory is host memory."""
    return replace(rank, held=add_parts(rank.held, rank.host), host={})
