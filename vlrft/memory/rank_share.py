"""What one rank holds of a policy and of its training, told by its engine; all else of a plan is the same with any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Parts = Mapping[str, int]  # bytes by part, as `plan.PARTS` names them


def none() -> dict[str, int]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """Gradients between and at the end of backward passes, where they are not `held` all along."""

    fresh: int  # one micro-batch's, when its backward pass ends
    summed: int  # what the micro-batches before have left
    in_place: bool  # a backward pass adds to that sum, and has no other place for its own

    def at_end(self, before: int) -> int:
        """When a backward pass ends that found `before`."""
        return self.fresh if self.in_place else before + self.fresh


@dataclass(frozen=True, kw_only=True)
class Share:
    """Bytes of a rank. What is not `held` comes besides it, in the moments that its name says."""

    held: Parts  # all along, the optimiser having its moments
    gradients: Gradients
    begun: bool = False  # the moments are there before the first step
    passes: Parts = field(default_factory=none)  # forward and backward passes of an update
    backward: Parts = field(default_factory=none)  # from the first gradient on
    reducing: Parts = field(default_factory=none)  # gradients go to other ranks
    filled: float = 1.0  # of a backward pass, when they first do
    step: Parts = field(default_factory=none)  # the optimiser's step
    whole: Parts = field(default_factory=none)  # the self-check
    sampling: Parts = field(default_factory=none)  # rollouts and evaluations
    gathering: Parts = field(default_factory=none)  # what is saved, a tensor at a time
    host: Parts = field(default_factory=none)  # the machine's memory, all along
    saving: Parts = field(default_factory=none)  # the machine's, of the first rank while it saves


def added(*parts: Parts) -> dict[str, int]:
    """Each part summed."""
    found: dict[str, int] = {}
    for some in parts:
        for name, size in some.items():
            found[name] = found.get(name, 0) + size
    return found


def on_one_memory(share: Share) -> Share:
    """On a CPU what an engine puts into the machine's memory lies beside everything else."""
    return replace(share, held=added(share.held, share.host), host={})
