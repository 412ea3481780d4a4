"""Which requests are sampled at once: completions share the room of the KV cache, and those that wait take the place of those
that have ended.

The functions work on lengths alone. A rollout engine calls them for the real work, the memory plan for the work it plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlrft.memory.limits import PREFILL_TOKENS


@dataclass(frozen=True, kw_only=True)
class CacheUse:
    """The prompts and rows in the KV cache of a rollout engine. A prompt takes as much as the longest, a row `steps`."""

    prompts: int = 0
    longest: int = 0  # tokens of the longest prompt
    rows: int = 0


EMPTY = CacheUse()


@dataclass(frozen=True, kw_only=True)
class CacheLimits:
    """Bounds on what is sampled at once."""

    steps: int  # tokens that each completion has room for
    max_rows: int
    max_cache_tokens: int

    def room(self, use: CacheUse) -> int:
        """Rows that may be added to those in use; less than 0 where there are too many."""
        keys = self.max_cache_tokens - use.prompts * use.longest
        return min(self.max_rows, keys // self.steps) - use.rows

    def spare_tokens(self, use: CacheUse) -> int:
        """Tokens of the cache that those in use leave; less than 0 where they are too many."""
        return self.max_cache_tokens - use.prompts * use.longest - use.rows * self.steps


def admit_requests(
    waiting: Sequence[tuple[int, int]],
    lengths: Sequence[int],
    limits: CacheLimits,
    use: CacheUse = EMPTY,
) -> list[tuple[int, int]]:
    """The first of the `waiting` (index, completions), longest prompt first, that are prefilled together and sampled beside
    what is in use: (index, completions). `lengths`: tokens of the prompts.

    They stay within the limits, and within `PREFILL_TOKENS` padded prompt tokens. A prompt is only split where its
    completions exceed the limits by themselves, down to one completion, so that something is admitted to an empty cache.
    """
    admitted: list[tuple[int, int]] = []
    for index, left in waiting:
        length = lengths[index]
        prefill = (len(admitted) + 1) * lengths[waiting[0][0]]
        longest = max(use.longest, length)
        with_prompt = CacheUse(prompts=use.prompts + 1, longest=longest, rows=use.rows)
        room = limits.room(with_prompt)
        alone = limits.room(CacheUse(prompts=1, longest=length))
        if admitted and prefill > PREFILL_TOKENS:
            break
        if not use.rows:
            count = min(left, max(room, 1))
        elif left > alone and not admitted:
            count = min(left, room)
        else:
            count = left if left <= room else 0
        if count <= 0:
            break
        admitted.append((index, count))
        use = CacheUse(prompts=with_prompt.prompts, longest=longest, rows=use.rows + count)
        if count < left:
            break
    return admitted


def longest_first(lengths: Sequence[int], counts: Sequence[int]) -> list[tuple[int, int]]:
    """(index, completions) of prompts that have any, longest prompt first, so that a batch has little padding and the largest
    comes first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [(i, counts[i]) for i in order if counts[i]]


def take_admitted(
    waiting: Sequence[tuple[int, int]], admitted: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The requests that still wait after `admit_requests`."""
    taken = dict(admitted)
    left = [(index, count - taken.get(index, 0)) for index, count in waiting]
    return [(index, count) for index, count in left if count]


def batch_requests(
    lengths: Sequence[int],
    counts: Sequence[int],
    *,
    steps: int,
    max_rows: int,
    max_cache_tokens: int,
) -> list[list[tuple[int, int]]]:
    """Batches of (index, completions), for prompts of `lengths` tokens with `counts` completions each: those that are
    sampled where all completions are equally long, as `admit_requests` then fills an empty cache each time."""
    limits = CacheLimits(steps=steps, max_rows=max_rows, max_cache_tokens=max_cache_tokens)
    batches: list[list[tuple[int, int]]] = []
    waiting = longest_first(lengths, counts)
    while waiting:
        batch = admit_requests(waiting, lengths, limits)
        batches.append(batch)
        waiting = take_admitted(waiting, batch)
    return batches
