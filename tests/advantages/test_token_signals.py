"""Numbers of tokens reach the steps that ask for them, and their additive credit the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from tests.advantages.steps import step_of
from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.advantages import Estimator, EstimatorInput, estimate_advantages, estimator_input
from vlrft.advantages.estimators.prefixes import PrefixShare, PrefixValue
from vlrft.advantages.grouped import Floats
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms.policy_loss import policy_loss
from vlrft.config import strict
from vlrft.config.load import load_config
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import gather_groups
from vlrft.schema import Group
from vlrft.schema.errors import AdvantageError, ConfigError
from vlrft.selection.replay import Replay, ReplayStore
from vlrft.testing.small_policies import group
from vlrft.trainer.stage_settings import find_choices


@strict
class AddEntropy:
    """Adds each token's entropy to its advantage."""

    needs_signals: ClassVar[frozenset[str]] = frozenset({"entropy", "id"})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return inputs.add_to_tokens(inputs.signal("entropy"))


PLUS_ENTROPY = Estimator(name="plus", doc="", steps=(AddEntropy(),))


def with_entropy(made: Group, by_rollout: Sequence[Sequence[float]]) -> Group:
    """The group with these entropies of its tokens."""
    rollouts = [
        replace(
            r, rows=(replace(row, pieces=(replace(row.pieces[0], signals={"entropy": tuple(h)}),)),)
        )
        for r, h in zip(made.rollouts, by_rollout, strict=True)
        for row in r.rows
    ]
    return replace(made, rollouts=tuple(rollouts))


ASKED = with_entropy(group("a", [1.0, 0.5], [[7, 8], [9]]), [[0.25, 0.5], [2.0]])


def flat(rows: Sequence[Sequence[Sequence[Floats]]]) -> list[list[float]]:
    return [part.tolist() for made in rows for rollout in made for part in rollout]


def test_signals_of_tokens_reach_a_step_and_its_terms_the_tokens() -> None:
    inputs = estimator_input([ASKED], {}, 9, signals=("id", "logprob", "entropy"))
    assert [v.tolist() for v in inputs.signal("id")] == [[7, 8], [9]]
    assert [v.tolist() for v in inputs.signal("logprob")] == [[-1, -1], [-1]]
    assert inputs.mean_signal("entropy").tolist() == [0.375, 2.0]
    assert flat(estimate_rows([ASKED], PLUS_ENTROPY)) == [[1.25, 1.5], [2.5]]
    twice = inputs.add_to_tokens(inputs.signal("entropy")).add_to_tokens(inputs.signal("id"))
    assert twice.by_token is not None
    assert [v.tolist() for v in twice.by_token] == [[7.25, 8.5], [11]]
    assert estimator_input([ASKED], {}, 9).signals == {}


def test_terms_are_added_after_factors_and_zeros_change_no_bit() -> None:
    inputs = step_of([0.1, 0.7], [0, 0], turn_tokens=[2, 1])
    factors = [np.array([0.5, 3.0]), np.array([0.3])]
    scaled = inputs.scale_tokens(factors)
    nothing = Estimator(name="none", doc="", steps=())
    before = estimate_advantages(scaled, nothing)
    zeros = estimate_advantages(scaled.add_to_tokens([np.zeros(2), np.zeros(1)]), nothing)
    assert [a.tobytes() for a in zeros] == [a.tobytes() for a in before]
    added = estimate_advantages(scaled.add_to_tokens([np.array([1.0, 0.0]), np.zeros(1)]), nothing)
    assert [a.tolist() for a in added] == [[0.1 * 0.5 + 1, 0.1 * 3.0], [0.7 * 0.3]]


def test_signals_that_are_missing_or_not_sampled_are_refused() -> None:
    unsampled = group("b", [1.0, 0.0])
    with pytest.raises(
        AdvantageError, match=r"plus: the signal entropy of rollout 0 .* did not sample it"
    ):
        estimate_rows([unsampled], PLUS_ENTROPY)
    with pytest.raises(AdvantageError, match="token signal"):
        estimator_input([ASKED], {}, 9, signals=("id",)).signal("entropy")
    short = step_of([1.0], [0], turn_tokens=[2], signals={"entropy": (np.ones(1),)})
    with pytest.raises(AdvantageError, match="1 entropy signals for a turn of 2 tokens"):
        short.signal("entropy")


def test_two_ranks_have_the_advantages_of_one() -> None:
    groups = [ASKED, with_entropy(group("b", [0.0, 1.0]), [[0.5], [1.5]])]

    def work(ranks: Ranks) -> list[list[float]]:
        shards = [[0], [1]] if ranks.size == 2 else [[0, 1]]
        played = [groups[i] for i in shards[ranks.rank]]
        shared = gather_groups(played, [g.sample for g in groups], shards, ranks)
        return flat(estimate_rows(shared, PLUS_ENTROPY))

    (alone,) = run_thread_ranks(1, work)
    assert run_thread_ranks(2, work) == [alone, alone]


def test_stored_rollouts_keep_their_signals() -> None:
    store = ReplayStore(Replay())
    store.mix([ASKED])
    resumed = ReplayStore(Replay())
    resumed.load_state_dict(store.state_dict())
    (mixed,) = resumed.mix([with_entropy(group("a", [0.0]), [[4.0]])])
    entropies = [p.signals["entropy"] for r in mixed.rollouts for p in r.sampled_pieces]
    assert entropies == [(4.0,), (0.25, 0.5), (2.0,)]


def test_the_loss_core_takes_signals_and_names_a_missing_one() -> None:
    logprobs = torch.zeros(2, 2, dtype=torch.float64)
    rest: dict[str, Any] = {
        "logprobs": logprobs,
        "old_logprobs": logprobs,
        "rewards": [1.0, 0.0],
        "group": [0, 0],
        "mask": torch.tensor([[True, True], [True, False]]),
        "regularize": {"kl": 0.0},
        "advantage": ["tests.advantages.test_token_signals:AddEntropy"],
    }
    with pytest.raises(ValueError, match="'entropy': "):
        policy_loss("grpo", **rest)
    signals = {"entropy": torch.tensor([[0.5, 0.25], [2.0, 9.0]]), "id": torch.ones(2, 2)}
    result = policy_loss("grpo", **rest, extras={"signals": signals})
    assert result.advantages.tolist() == [[1.5, 1.25], [2.0, 0.0]]


def test_an_engine_without_the_signal_is_refused_before_a_run() -> None:
    steps = "[{step: tests.advantages.test_token_signals:AddEntropy}]"
    wanted = [f"algorithm={{name: grpo, advantage: {steps}}}"]
    find_choices(load_config("quickstart", wanted))
    with pytest.raises(ConfigError, match=r"reads the entropy of sampled tokens, .* vllm does not"):
        find_choices(load_config("quickstart", [*wanted, "rollout.engine={name: vllm}"]))


def test_prefix_values_telescope_over_the_turns_of_an_episode() -> None:
    """Two rollouts of two turns that part in the second, after the same observation; a third begins otherwise."""
    inputs = step_of(
        [1.0, 0.0, 0.5],
        [0, 0, 0],
        rollouts=[0, 0, 1, 1, 2],
        turn_tokens=[2, 1, 2, 1, 1],
        places=np.array([0, 1, 0, 1, 0]),
        anchors=np.array([0, 7, 1, 7, 2]),
        signals={"id": tuple(map(np.array, ([3.0, 4.0], [5.0], [3.0, 4.0], [6.0], [9.0])))},
    )
    terms = PrefixValue()(inputs).by_token
    assert terms is not None
    assert [row.tolist() for row in terms] == [[0, 0], [0.5], [0, 0], [-0.5], [0]]
    other = replace(inputs, anchors=np.array([0, 7, 1, 8, 2]))
    assert PrefixShare()(other).token_factors[1].tolist() == [1.0]  # type: ignore[index]
    assert [v.tolist() for v in PrefixShare()(inputs).token_factors or ()] == [
        [0.5, 0.5],
        [1.0],
        [0.5, 0.5],
        [1.0],
        [1.0],
    ]
