"""Gold answers join groups that need them, with the reward that they earn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import Tiny
from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.advantages import find_estimator
from vlrft.advantages.rows import estimate_rows, rollout_means
from vlrft.config.load import load_config
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import gather_groups
from vlrft.rollout.injection import inject_gold
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.scoring.weighted import WeightedReward
from vlrft.selection.injection import InjectGold, own_rollouts
from vlrft.selection.prompt_state import PromptStates
from vlrft.testing.small_policies import group
from vlrft.trainer.stage_settings import find_choices, resolve_stages

WRONG, MIXED = group("seven", [0.0, 0.1, 0.0]), group("eight", [0.0, 1.0, 0.0])


def says(completion: str, sample: Sample) -> float:
    return float(completion == f"it is {sample.id}") + 0.1


def loaded() -> LoadedTask:
    task = Task(
        name="say",
        doc="Says.",
        options=object,
        splits=("train",),
        load=lambda split, options: [],
        rewards={"says": 1.0},
        graders={"strict": ("says",)},
        gold=lambda sample: f"it is {sample.id}",
    )
    return LoadedTask(
        task=task, samples=(), rewards=(WeightedReward(name="says", weight=1.0, function=says),)
    )


def test_a_group_without_a_right_answer_gets_the_gold_one_with_its_computed_reward(
    tiny: Tiny,
) -> None:
    chat = tiny("qwen2").chat
    injected, untouched = inject_gold(InjectGold(), [WRONG, MIXED], loaded(), chat)
    assert untouched is MIXED
    assert injected.rollouts[:2] == WRONG.rollouts[:2]
    gold = injected.rollouts[2]
    assert (gold.reward, gold.scores, gold.origin) == (1.1, {"says": 1.1}, "injected")
    assert gold.rows[0].prompt == WRONG.rollouts[0].rows[0].prompt
    (piece,) = gold.rows[0].pieces
    assert (piece.ids, piece.logprobs) == (chat.answer_ids("it is seven"), ())


def test_it_may_join_in_place_of_replacing_and_join_every_group(tiny: Tiny) -> None:
    rule = InjectGold(when="always", replace=False)
    assert not InjectGold(right=0.05).wants(WRONG)
    groups = inject_gold(rule, [WRONG, MIXED], loaded(), tiny("qwen2").chat)
    assert [g.rewards for g in groups] == [(0.0, 0.1, 0.0, 1.1), (0.0, 1.0, 0.0, 1.1)]


@pytest.mark.parametrize("size", [4, 8])
def test_the_gold_answer_of_a_wrong_group_has_the_advantage_of_the_formula(
    tiny: Tiny, size: int
) -> None:
    """σ = 1/√G of one 1 among zeros: (G − 1)/√G, and −1/√G for each other."""
    flat = group("seven", [0.0] * size)
    (injected,) = inject_gold(InjectGold(), [flat], loaded(), tiny("qwen2").chat)
    unit = replace(
        injected,
        rollouts=tuple(replace(r, reward=float(r.reward > 1)) for r in injected.rollouts),
    )
    (means,) = rollout_means(estimate_rows([unit], find_estimator("standardised")))
    expected = [-1 / np.sqrt(size)] * (size - 1) + [(size - 1) / np.sqrt(size)]
    assert means == pytest.approx(expected, rel=1e-5)


def test_what_is_known_of_a_prompt_is_the_policys_own(tiny: Tiny) -> None:
    (injected,) = inject_gold(InjectGold(), [WRONG], loaded(), tiny("qwen2").chat)
    assert own_rollouts(injected).rollouts == WRONG.rollouts[:2]
    assert own_rollouts(MIXED) is MIXED
    only = replace(injected, rollouts=injected.rollouts[2:])
    assert own_rollouts(only) is only
    states = PromptStates()
    states.observe([injected])
    record = states.records["seven"]
    assert (record.reward, record.seen) == (0.05, 2)


def test_two_ranks_have_the_groups_of_one(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat

    def work(ranks: Ranks) -> list[tuple[float, ...]]:
        shards = [[1], [0]] if ranks.size == 2 else [[0, 1]]
        played: list[Group] = [[WRONG, MIXED][i] for i in shards[ranks.rank]]
        injected = inject_gold(InjectGold(), played, loaded(), chat)
        samples = [WRONG.sample, MIXED.sample]
        return [g.rewards for g in gather_groups(injected, samples, shards, ranks)]

    (alone,) = run_thread_ranks(1, work)
    assert run_thread_ranks(2, work) == [alone, alone]
    assert alone == [(0.0, 0.1, 1.1), (0.0, 1.0, 0.0)]


@pytest.mark.parametrize(
    ("algorithm", "more", "mistake"),
    [
        ("{name: sft, inject: gold}", [], "sft trains on gold answers alone"),
        ("{name: grpo, inject: gold}", ["rollout.group_size=1"], "replace the only rollout"),
        ("{name: grpo, inject: gold, replay: {name: fifo}}", [], "gold answers have none"),
        (
            "{name: grpo, inject: gold, advantage: [unlikely, centre]}",
            [],
            "reads the logprob of sampled tokens",
        ),
    ],
)
def test_what_does_not_go_with_gold_answers_is_refused(
    algorithm: str, more: list[str], mistake: str
) -> None:
    config = load_config("quickstart", [f"algorithm={algorithm}", *more])
    with pytest.raises(ConfigError, match=mistake):
        find_choices(config)


def test_an_environment_is_refused() -> None:
    config = load_config("gridworld", ["algorithm={name: grpo, inject: gold}"])
    with pytest.raises(ConfigError, match=r"algorithm\.inject: .* has an environment"):
        resolve_stages(config)
