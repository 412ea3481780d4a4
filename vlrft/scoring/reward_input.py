"""The input of a reward."""

from __future__ import annotations

from typing import NamedTuple

from vlrft.schema import Sample


class RewardInput(NamedTuple):
    """The part of a rollout that a reward may read."""

    completion: str
    sample: Sample
    ids: tuple[int, ...] = ()  # action tokens [T], only filled for rewards that read them
