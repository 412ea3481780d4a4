"""Rows whose own part is what they pay at which time of training: by hand, and each row with a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.systems.mutant import Mutant
from tests.systems.row import Row
from tests.systems.wrong_parts import HERE
from vlrft.schema import Rollout
from vlrft.scoring.rewards import score_groups
from vlrft.testing.small_policies import group


def assert_shrinking_budget(row: Row) -> None:
    """0.3 for a completion of the budget's length, falling to nothing at none and at twice the budget, which shrinks from 1024 characters to
    0.7^3 of that."""
    own = [reward for reward in row.rewards if reward.name.endswith("curriculum")]
    assert own
    for progress, characters, expected in (
        (0.0, 1024, 0.3),
        (0.0, 256, 0.075),
        (0.0, 2048, 0.0),
        (0.5, 1100, 0.0),
        (0.75, 351, 0.3 * 351 / 351.232),
        (0.75, 600, 0.3 * (2 - 600 / 351.232)),
    ):
        (scored,) = score_groups([[of_length(characters)]], own, progress)
        assert scored[0].reward == pytest.approx(expected, abs=1e-12)


def of_length(characters: int) -> Rollout:
    (rollout,) = group("q", [0.0]).rollouts
    (row,) = rollout.rows
    piece = replace(row.pieces[0], text="x" * characters)
    return replace(rollout, rows=(replace(row, pieces=(piece,)),))


ROWS: Mapping[int, Mutant] = {
    110: Mutant(
        assert_shrinking_budget,
        "all lengths within the budget are paid alike, and longer ones nothing",
        {"config": {"task": {"rewards": {f"{HERE}curriculum": 0.3}}}},
    ),
}
"""Row -> its check, and the row with a mistake."""
