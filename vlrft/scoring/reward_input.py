"""The input of a reward."""

from __future__ import annotations

from typing import NamedTuple

from vlrft.schema import Sample


class RewardInput(NamedTuple):
    """The part of a rollout that a reward may read, and where in training it was played."""

    completion: str
    sample: Sample
    ids: tuple[int, ...] = ()  # action tokens [T], only filled for rewards that read them
    progress: float = 1.0
    """The share of the stage's steps that are done; 1.0 outside of training."""
