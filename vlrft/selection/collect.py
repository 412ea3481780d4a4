"""The groups of a step: prompts are drawn and played until the group filter keeps enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from vlrft.schema import Group, Sample
from vlrft.selection.group_filters import Keep, is_valid

Play = Callable[[Sequence[Sample], int], Sequence[Group]]
"""(samples, attempt) -> one group per sample, without those that a failed environment excludes."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The groups that a step trains on, and all that were sampled for them."""

    groups: tuple[Group, ...]
    sampled: tuple[Group, ...]  # of every attempt, including those that are not kept
    attempts: int

    @property
    def valid_share(self) -> float:
        """The share of sampled groups whose rewards differ; 0 where there is no group."""
        return sum(map(is_valid, self.sampled)) / max(len(self.sampled), 1)


@runtime_checkable
class Prompts(Protocol):
    """A source of prompts, such as a `PromptSampler`."""

    def draw(self, size: int) -> list[Sample]:
        """The next `size` prompts."""
        ...


def collect(prompts: Prompts, play: Play, keep: Keep, size: int) -> Collected:
    """Plays `size` new prompts per attempt until `keep` has enough groups or its attempts are used up."""
    sampled: list[Group] = []
    attempts = 0
    while attempts < keep.max_attempts:
        sampled += play(prompts.draw(size), attempts)
        attempts += 1
        if keep.enough(sum(map(is_valid, sampled)), size):
            break
    groups = tuple(keep.choose(sampled, size))
    return Collected(groups=groups, sampled=tuple(sampled), attempts=attempts)
