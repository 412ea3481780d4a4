"""Properties of a rollout that come from its pieces."""

from __future__ import annotations

from dataclasses import replace

from vlrft.schema import Piece, Rollout
from vlrft.testing.small_policies import group


def test_each_action_token_has_the_step_whose_weights_sampled_it() -> None:
    assert stale_rollout().policy_steps == (5, 5, 3, 4)


def test_tokens_without_a_step_of_their_own_have_that_of_the_rollout() -> None:
    (rollout,) = group("a", [1.0], [[7, 8, 9]]).rollouts
    assert replace(rollout, policy_step=2).policy_steps == (2, 2, 2)


def stale_rollout() -> Rollout:
    """Two turns: one without steps, sampled after step 5, and one that began after step 3; text inserted between them."""
    (rollout,) = group("a", [1.0], [[7, 8]]).rollouts
    (row,) = rollout.rows
    inserted = Piece(ids=(1, 2, 3), text="seen", sampled=False)
    second = Piece(ids=(4, 6), text="go", logprobs=(-1.0, -1.0), policy_steps=(3, 4))
    row = replace(row, pieces=(*row.pieces, inserted, second))
    return replace(rollout, rows=(row,), policy_step=5)
