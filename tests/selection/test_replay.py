"""Stored rollouts come back as they were sampled."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fakes import group
from vlrft.selection.replay import Replay, ReplayError, ReplayStore


def test_stored_rollouts_join_the_next_group_of_their_prompt() -> None:
    store = ReplayStore(Replay(add=2, capacity=3))
    (first,) = store.mix([group("a", [0.0, 1.0], [[7, 8], [9]])])
    assert len(first.rollouts) == 2
    other, again = store.mix([group("b", [0.5]), group("a", [0.25])])
    assert len(other.rollouts) == 1
    assert again.rewards == (0.25, 0.0, 1.0)
    stored = again.rollouts[1]
    assert stored.origin == "replay"
    assert stored.sequences[0].prompt == again.rollouts[0].sequences[0].prompt
    (piece,) = stored.sequences[0].pieces
    assert (piece.ids, piece.logprobs) == ((7, 8), (-1.0, -1.0))


def test_the_oldest_go_first_and_the_best_may_be_picked() -> None:
    recent, best = (ReplayStore(Replay(add=1, capacity=2, pick=p)) for p in ("recent", "reward"))
    for store in (recent, best):
        store.mix([group("a", [1.0, 0.5, 0.0])])  # 1.0 is forgotten
    assert recent.mix([group("a", [0.1])])[0].rewards == (0.1, 0.0)
    assert best.mix([group("a", [0.1])])[0].rewards == (0.1, 0.5)


def test_what_is_stored_survives_a_checkpoint() -> None:
    store = ReplayStore(Replay())
    store.mix([group("a", [0.0, 1.0], [[7, 8], [9]])])
    resumed = ReplayStore(Replay())
    resumed.load_state_dict(json.loads(json.dumps(store.state_dict())))
    fresh = group("a", [0.5])
    assert resumed.mix([fresh]) == store.mix([fresh])


def test_several_turns_are_refused() -> None:
    own = group("a", [1.0])
    (rollout,) = own.rollouts
    twice = replace(rollout, sequences=rollout.sequences * 2)
    with pytest.raises(ReplayError, match="a: replay stores single-turn"):
        ReplayStore(Replay()).mix([replace(own, rollouts=(twice,))])
