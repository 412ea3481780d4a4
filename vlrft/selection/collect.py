"""One step's groups: draw prompts, play them, go on until the keep rule has enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vlrft.schema import Group, Sample
from vlrft.selection.group_filters import Keep, is_valid
from vlrft.selection.prompt_sampler import PromptSampler

Play = Callable[[Sequence[Sample], int], Sequence[Group]]
"""(samples, attempt) -> a group each, without those that a failed environment took."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The groups a step trains on, and what it took to get them."""

    groups: tuple[Group, ...]
    sampled: tuple[Group, ...]  # of every attempt, the discarded ones included
    attempts: int

    @property
    def valid_share(self) -> float:
        """Share of valid groups among all that were sampled: how much the prompts still teach. 0 where none is left."""
        return sum(map(is_valid, self.sampled)) / max(len(self.sampled), 1)


def collect(prompts: PromptSampler, play: Play, keep: Keep, size: int) -> Collected:
    """Plays `size` fresh prompts an attempt until `keep` has enough or its attempts are used up."""
    sampled: list[Group] = []
    attempts = 0
    while attempts < keep.max_attempts:
        sampled += play(prompts.draw(size), attempts)
        attempts += 1
        if keep.enough(sum(map(is_valid, sampled)), size):
            break
    chosen = keep.choose(sampled, size)
    return Collected(groups=tuple(chosen), sampled=tuple(sampled), attempts=attempts)
