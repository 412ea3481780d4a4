"""An estimator reads what precedes its step: progress, numbers of the sample, and notes of a prompt's last visit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.fakes.thread_ranks import run_thread_ranks
from vlrft.advantages import EstimatorInput, estimate_advantages, estimator_input, find_estimator
from vlrft.advantages.rows import Estimated, estimate_rows, estimate_step, rollout_means
from vlrft.algorithms.policy_loss import policy_loss
from vlrft.distributed.ranks import Ranks
from vlrft.distributed.sharding import gather_groups
from vlrft.schema import Group
from vlrft.schema.errors import AdvantageError
from vlrft.selection.prompt_state import PromptStates
from vlrft.testing.small_policies import group

TRACKED = find_estimator([{"step": "minus_tracked", "keep": 0.5}])
SMOOTHED = find_estimator(["smoothed"])


def with_info(made: Group, **info: object) -> Group:
    sample = replace(made.sample, info=info)
    rollouts = tuple(replace(r, sample=sample) for r in made.rollouts)
    return replace(made, sample=sample, rollouts=rollouts)


def visit(states: PromptStates, *groups: Group) -> Estimated:
    """A step as a stage takes it."""
    states.observe(groups)
    names = [g.sample.id for g in groups]
    estimated = estimate_step(groups, TRACKED, history=states.notes(names))
    states.note(names, estimated.notes)
    return estimated


def test_a_prompt_is_compared_before_its_rewards_are_noted() -> None:
    states = PromptStates()
    first = visit(states, group("a", [1.0]), group("b", [0.0, 1.0]))
    assert rollout_means(first.rows) == [[0.5], [-0.5, 0.5]]
    assert first.notes == [{"alpha": 1.25, "beta": 0.25}, {"alpha": 0.75, "beta": 0.75}]
    second = visit(states, group("a", [1.0]))
    assert rollout_means(second.rows) == [[1.0 - 1.25 / 1.5]]
    record = states.records["a"]
    assert (record.played, record.seen, record.total) == (2, 2, 2.0)
    assert record.notes == {"alpha": 1.625, "beta": 0.125}


def test_notes_survive_a_checkpoint_and_older_ones_have_none() -> None:
    states, resumed = PromptStates(), PromptStates()
    visit(states, group("a", [1.0]))
    resumed.load_state_dict(json.loads(json.dumps(states.state_dict())))
    assert visit(resumed, group("a", [0.0])).notes == visit(states, group("a", [0.0])).notes
    old = {"played": 2, "reward": 1.0, "stale": 0, "variance": 0.0, "length": 3.0}
    resumed.load_state_dict({"a": old})
    assert (resumed.records["a"].notes, resumed.records["a"].seen) == ({}, 0)


def test_steps_without_notes_leave_the_history_as_it_was() -> None:
    states = PromptStates()
    states.observe([group("a", [1.0, 0.0])])
    before = states.copy().records
    estimated = estimate_step([group("a", [1.0, 0.0])], find_estimator("standardised"))
    states.note(["a"], estimated.notes)
    assert states.records == before
    assert states.records["a"].notes == {}


def test_two_ranks_note_what_one_does() -> None:
    groups = [group("a", [1.0]), group("b", [0.0, 1.0])]

    def work(ranks: Ranks) -> list[list[dict[str, float]]]:
        states, shards = PromptStates(), [[1], [0]] if ranks.size == 2 else [[0, 1]]
        played = [groups[i] for i in shards[ranks.rank]]
        shared = gather_groups(played, [g.sample for g in groups], shards, ranks)
        return [visit(states, *shared).notes, visit(states, *shared).notes]

    (alone,) = run_thread_ranks(1, work)
    assert run_thread_ranks(2, work) == [alone, alone]


def test_a_number_of_the_sample_is_a_baseline_and_has_to_be_there() -> None:
    step = find_estimator(["minus_known"])
    known = [with_info(group("a", [1.0, 0.0]), baseline=0.25, name="x"), group("b", [1.0])]
    assert rollout_means(estimate_rows(known[:1], step)) == [[0.75, -0.25]]
    with pytest.raises(AdvantageError, match="rollout 2 of the step has no number baseline"):
        estimate_rows(known, step)
    with pytest.raises(AdvantageError, match="'baseline'"):
        estimate_rows(known[1:], step)
    lenient = find_estimator([{"step": "minus_known", "otherwise": 0.5}])
    assert rollout_means(estimate_rows(known, lenient)) == [[0.75, -0.25], [0.5]]
    mean = [with_info(group("a", [1.0, 0.0, 0.5]), baseline=0.5)]
    assert rollout_means(estimate_rows(mean, step)) == rollout_means(
        estimate_rows(mean, find_estimator("centred"))
    )


def test_tracked_values_need_rewards_from_zero_to_one() -> None:
    with pytest.raises(AdvantageError, match="rewards from 0 to 1, and one is 2"):
        estimate_rows([group("a", [1.0, 2.0])], TRACKED)


def test_the_first_visit_of_a_smoothed_prompt_is_grpo_and_a_flat_later_one_teaches() -> None:
    fresh = estimate_step([group("a", [1.0, 0.0, 0.0])], SMOOTHED)
    (means,) = rollout_means(fresh.rows)
    assert means == pytest.approx([2 / 3 / 3**-0.5, -1 / 3 / 3**-0.5, -1 / 3 / 3**-0.5])
    flat = estimate_step([group("a", [1.0, 1.0])], SMOOTHED, history=fresh.notes)
    (later,) = rollout_means(flat.rows)
    assert later[0] == later[1] > 0


def test_the_loss_core_takes_progress_history_and_known_numbers() -> None:
    rest = {
        "logprobs": torch.zeros(2, 1, dtype=torch.float64),
        "old_logprobs": torch.zeros(2, 1, dtype=torch.float64),
        "rewards": [1.0, 0.0],
        "group": [0, 1],
        "mask": torch.ones(2, 1, dtype=torch.bool),
        "regularize": {"kl": 0.0},
    }
    known = policy_loss(
        "grpo",
        **rest,  # type: ignore[arg-type]
        advantage=["minus_known"],
        extras={"known": {"baseline": [0.25, 0.5]}},
    )
    assert known.advantages.tolist() == [[0.75], [-0.5]]
    tracked = policy_loss(
        "grpo",
        **rest,  # type: ignore[arg-type]
        advantage=["minus_tracked"],
        extras={"history": {"alpha": [3.0, float("nan")], "beta": [1.0, float("nan")]}},
    )
    assert tracked.advantages.tolist() == [[0.25], [-0.5]]


def test_a_rare_format_counts_more_at_first_and_no_more_at_the_end() -> None:
    def values(progress: float) -> list[float]:
        made = estimator_input([group("a", [1.0, 1.0, 0.0, 1.0])], {}, 9, progress=progress)
        scores = {"reasoning_format": np.array([1.0, 2.0, 2.0, 2.0])}
        scored: EstimatorInput = replace(made, scores=scores)
        return [float(a[0]) for a in estimate_advantages(scored, find_estimator(["rare_formats"]))]

    assert values(0.0) == pytest.approx([4.0, 4 / 3, 0.0, 4 / 3])
    assert values(1.0) == pytest.approx([1.0, 1.0, 0.0, 1.0])
