"""The replay store returns rollouts as they were sampled."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlrft.schema.errors import ReplayError
from vlrft.selection.replay import Replay, ReplayStore
from vlrft.testing.small_policies import group


def test_stored_rollouts_join_the_next_group_of_their_prompt() -> None:
    store = ReplayStore(Replay(add=2, capacity=3))
    (first,) = store.mix([group("a", [0.0, 1.0], [[7, 8], [9]])])
    assert len(first.rollouts) == 2
    other, again = store.mix([group("b", [0.5]), group("a", [0.25])])
    assert len(other.rollouts) == 1
    assert again.rewards == (0.25, 0.0, 1.0)
    stored = again.rollouts[1]
    assert stored.origin == "replay"
    assert stored.rows[0].prompt == again.rollouts[0].rows[0].prompt
    (piece,) = stored.rows[0].pieces
    assert (piece.ids, piece.logprobs) == ((7, 8), (-1.0, -1.0))


def test_the_oldest_are_dropped_first_and_the_best_may_be_picked() -> None:
    recent, best = (ReplayStore(Replay(add=1, capacity=2, pick=p)) for p in ("recent", "reward"))
    for store in (recent, best):
        store.mix([group("a", [1.0, 0.5, 0.0])])  # 1.0 is forgotten
    assert recent.mix([group("a", [0.1])])[0].rewards == (0.1, 0.0)
    assert best.mix([group("a", [0.1])])[0].rewards == (0.1, 0.5)


def test_stored_rollouts_survive_a_checkpoint() -> None:
    store = ReplayStore(Replay())
    store.mix([group("a", [0.0, 1.0], [[7, 8], [9]])])
    resumed = ReplayStore(Replay())
    resumed.load_state_dict(json.loads(json.dumps(store.state_dict())))
    fresh = group("a", [0.5])
    assert resumed.mix([fresh]) == store.mix([fresh])


def test_rewards_that_differ_most_may_be_picked() -> None:
    store = ReplayStore(Replay(add=2, capacity=4, pick="variance"))
    store.mix([group("a", [0.5, 1.0, 0.0, 0.6])])
    assert store.mix([group("a", [0.3])])[0].rewards == (0.3, 1.0, 0.0)


def test_a_stored_rollout_equals_the_sampled_one_except_its_origin() -> None:
    fresh = group("a", [0.75], [[7, 8]])
    (rollout,) = fresh.rollouts
    (piece,) = rollout.rows[0].pieces
    piece = replace(piece, text="so", finish="length", logprobs=(-0.5, -1.25), policy_steps=(2, 3))
    rollout = replace(
        rollout,
        rows=(replace(rollout.rows[0], pieces=(piece,)),),
        scores={"choice": 0.75, "format": None},
        imputed={"format": 0.5},
        policy_step=3,
    )
    store = ReplayStore(Replay())
    store.mix([replace(fresh, rollouts=(rollout,))])
    resumed = ReplayStore(Replay())
    resumed.load_state_dict(json.loads(json.dumps(store.state_dict())))
    (mixed,) = resumed.mix([group("a", [0.0])])
    assert mixed.rollouts[1] == replace(rollout, origin="replay")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5)), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(["recent", "reward", "variance"]),
)
def test_the_store_is_a_queue_per_prompt(
    played: list[tuple[str, int]],
    capacity: int,
    add: int,
    pick: Literal["recent", "reward", "variance"],
) -> None:
    add = min(add, capacity)
    store = ReplayStore(Replay(add=add, capacity=capacity, pick=pick))
    seen: dict[str, list[float]] = {"a": [], "b": []}
    number = 0.0
    for name, count in played:
        fresh = group(name, [number := number + 1 for _ in range(count)])
        (mixed,) = store.mix([fresh])
        assert mixed.rollouts[:count] == fresh.rollouts
        queue = seen[name][-capacity:]
        added = [r.reward for r in mixed.rollouts[count:]]
        assert len(added) == len(set(added)) == min(add, len(queue))
        assert set(added) <= set(queue)
        if pick != "variance":  # rewards rise with time here
            assert added == queue[-add:]
        assert {r.origin for r in mixed.rollouts[count:]} <= {"replay"}
        seen[name] += fresh.rewards


def test_a_saved_state_does_not_change_later() -> None:
    store = ReplayStore(Replay())
    store.mix([group("a", [1.0])])
    saved = store.state_dict()
    before = json.dumps(saved)
    store.mix([group("a", [0.0]), group("b", [1.0])])
    assert json.dumps(saved) == before


def test_demonstrations_are_refused() -> None:
    fresh = group("a", [1.0])
    (rollout,) = fresh.rollouts
    (row,) = rollout.rows
    given_row = replace(row, pieces=(replace(row.pieces[0], logprobs=()),))
    demonstration = replace(fresh, rollouts=(replace(rollout, rows=(given_row,)),))
    with pytest.raises(ReplayError, match="a: replay stores sampled rollouts"):
        ReplayStore(Replay()).mix([demonstration])


def test_several_turns_are_refused() -> None:
    fresh = group("a", [1.0])
    (rollout,) = fresh.rollouts
    twice = replace(rollout, rows=rollout.rows * 2)
    with pytest.raises(ReplayError, match="a: replay stores single-turn"):
        ReplayStore(Replay()).mix([replace(fresh, rollouts=(twice,))])
