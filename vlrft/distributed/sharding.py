"""A step's samples dealt over the ranks: each is played by one rank, and then every rank knows every group.

What is decided from groups (which to keep, whether to go on sampling, advantages, denominators) is computed by every
rank from the same groups in the same order, and so is what one process would decide. Prompts and images stay where they
were played; that rank trains on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.distributed.ranks import Ranks
from vlrft.schema import DataError, Group, Piece, Prompt, Resize, Sample
from vlrft.tracing.phases import work_on

CHARACTERS = 4  # of a token, about


def dealt(
    samples: Sequence[Sample],
    play: Callable[[Sequence[int]], Sequence[Group]],
    ranks: Ranks,
    sizes: Sequence[float],
) -> list[Group]:
    """A group a sample, in order. `play` gets the places of this rank's own samples and returns a group for each.
    `sizes`: about how many tokens each sample takes, the same on every rank."""
    places = shares(sizes, ranks.size)
    own = places[ranks.rank]
    work_on([samples[place].id for place in own])
    played = [replace(group, rank=ranks.rank) for group in play(own)]
    if ranks.size == 1:
        return played
    found: list[Group | None] = [None] * len(samples)
    for rank, part in enumerate(ranks.gather([_figures_only(group) for group in played])):
        for place, group in zip(places[rank], part, strict=True):
            found[place] = _of_sample(group, samples[place], rank)
    for place, group in zip(own, played, strict=True):
        found[place] = group  # with prompts and images
    return [group for group in found if group is not None]


def shares(sizes: Sequence[float], ranks: int) -> list[list[int]]:
    """The places that each rank gets, ascending: the largest first, to the rank that has least (Graham 1969, LPT)."""
    held = [0.0] * ranks
    found: list[list[int]] = [[] for _ in range(ranks)]
    for place in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        least = min(range(ranks), key=lambda rank: (held[rank], len(found[rank])))
        held[least] += sizes[place]
        found[least].append(place)
    return [sorted(own) for own in found]


def prompt_size(sample: Sample, resize: Resize | None) -> float:
    """About how many tokens its first prompt has, by its characters and its images' areas; nothing is rendered.
    `resize`: how the policy's image processor resizes, None where it has none."""
    texts = [
        part for message in sample.messages for part in message.content if isinstance(part, str)
    ]
    tokens = sum(map(len, texts)) / CHARACTERS
    if resize is not None:
        areas = (image.width * image.height for image in sample.images)
        shown = (min(max(area, resize.min_pixels), resize.max_pixels) for area in areas)
        tokens += sum(shown) / resize.factor**2
    return tokens


def _figures_only(group: Group) -> Group:
    """The group without images and prompts: small enough to be sent."""
    rollouts = [
        replace(
            r,
            sample=replace(r.sample, images=(), messages=(), info={}),
            rows=tuple(
                replace(s, prompt=Prompt(ids=()), pieces=tuple(map(_without_images, s.pieces)))
                for s in r.rows
            ),
        )
        for r in group.rollouts
    ]
    return replace(group, sample=rollouts[0].sample, rollouts=tuple(rollouts))


def _without_images(piece: Piece) -> Piece:
    turn = None if piece.turn is None else replace(piece.turn, images=())
    return replace(piece, images=(), turn=turn)


def _of_sample(group: Group, sample: Sample, rank: int) -> Group:
    """The group with this rank's own copy of the sample. Raises DataError where the ranks' data differ."""
    if group.sample.id != sample.id:
        raise DataError(
            f"rank {rank} has {group.sample.id} where this one has {sample.id}: give all ranks the same data, in the same order"
        )
    return replace(
        group, sample=sample, rollouts=tuple(replace(r, sample=sample) for r in group.rollouts)
    )
