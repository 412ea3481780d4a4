"""A task of several turns in one growing conversation of text, without options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.rollout.test_play import TASK
from vlrft.testing.small_policies import sample


@dataclass(frozen=True)
class Options:
    """None."""


task = replace(
    TASK,
    options=Options,
    splits=("train", "test"),
    load=lambda split, options: [sample(f"{split}{k}", "grows") for k in range(4)],
)
