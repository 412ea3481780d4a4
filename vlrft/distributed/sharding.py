"""Sharding of a step's samples over the ranks: each rank plays its shard, then all ranks exchange their groups.

Every decision about groups (which ones to keep, whether to sample more, advantages, denominators) is computed on
every rank from the same groups in the same order, and so equals that of a single process. Prompts and
images are not exchanged: they stay on the rank that played them, which also trains on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vlrft.distributed.ranks import Ranks
from vlrft.schema import DataError, Group, Piece, Prompt, Sample


def shard_by_size(sizes: Sequence[float], ranks: int) -> list[list[int]]:
    """The indices of each rank's shard, ascending: items are assigned from the largest to the smallest, each to the rank
    with the smallest total so far (longest processing time first, Graham 1969).

    `sizes`: one per item, such as its estimated number of tokens; they must be equal on all ranks.
    """
    totals = [0.0] * ranks
    shards: list[list[int]] = [[] for _ in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        least = min(range(ranks), key=lambda rank: (totals[rank], len(shards[rank])))
        totals[least] += sizes[index]
        shards[least].append(index)
    return [sorted(shard) for shard in shards]


def gather_groups(
    groups: Sequence[Group],
    samples: Sequence[Sample],
    shards: Sequence[Sequence[int]],
    ranks: Ranks,
) -> list[Group]:
    """One group for each of `samples`, in their order, on every rank. `groups`: those of this rank's shard.

    Groups of other ranks have no prompts and images. Raises DataError where the samples of the ranks differ.
    """
    played = [replace(group, rank=ranks.rank) for group in groups]
    if ranks.size == 1:
        return played
    by_index: dict[int, Group] = {}
    for rank, part in enumerate(ranks.gather([_strip(group) for group in played])):
        for index, group in zip(shards[rank], part, strict=True):
            by_index[index] = _with_sample(group, samples[index], rank)
    by_index |= zip(shards[ranks.rank], played, strict=True)  # with prompts and images
    return [by_index[index] for index in range(len(samples))]


def _strip(group: Group) -> Group:
    """The group without images and prompts, which makes it small enough to send."""
    rollouts = [
        replace(
            r,
            sample=replace(r.sample, images=(), messages=(), info={}),
            rows=tuple(
                replace(row, prompt=Prompt(ids=()), pieces=tuple(map(_without_images, row.pieces)))
                for row in r.rows
            ),
        )
        for r in group.rollouts
    ]
    return replace(group, sample=rollouts[0].sample, rollouts=tuple(rollouts))


def _without_images(piece: Piece) -> Piece:
    turn = None if piece.turn is None else replace(piece.turn, images=())
    return replace(piece, images=(), turn=turn)


def _with_sample(group: Group, sample: Sample, rank: int) -> Group:
    """The group with this rank's copy of its sample."""
    if group.sample.id != sample.id:
        raise DataError(
            f"rank {rank} has sample {group.sample.id} where this rank has {sample.id}; give all ranks the same data in the same order"
        )
    return replace(
        group, sample=sample, rollouts=tuple(replace(r, sample=sample) for r in group.rollouts)
    )
