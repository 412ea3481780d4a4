"""Work of a step in exact integers, counted by hooks on the modules of a small real policy (benchmarks.counts).

The formula: an update runs each distinct prompt once and all tokens of each answer but the last, from which nothing is
predicted: P + Σ(C − 1) tokens; the head runs on ΣC rows; a group without signal costs none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.memory.limits import KEEP_SHARE
from vlrft.rollout.engines.decoding import LOOK_EVERY
from vlrft.testing.count_step import SampledGroup, StepCase, StepCounts, count_step
from vlrft.testing.work_meter import Work

MERGED = 4  # patches that become one token of a prompt
ALGORITHMS: dict[str, dict[str, Any]] = {  # as published, without a KL penalty, every group kept
    "gpg": {"keep": "all"},
    "grpo": {"regularize": {"kl": 0.0}},
    "dr_grpo": {},
    "gmpo": {},
    "gspo": {},
    "cw_grpo": {"regularize": {"kl": 0.0}},
}


def case(algorithm: str = "gpg", **settings: Any) -> StepCase:
    return StepCase(algorithm={"name": algorithm, **ALGORITHMS.get(algorithm, {})}, **settings)


def update_tokens(groups: Sequence[SampledGroup]) -> int:
    return sum(g.prompt + sum(c - 1 for c in g.answers) for g in groups)


def answer_tokens(groups: Sequence[SampledGroup]) -> int:
    return sum(sum(g.answers) for g in groups)


def without_layout(counts: StepCounts) -> Work:
    """An update's work without the counts that depend on the layout of images and padding."""
    return replace(counts.update, patches=0, positions=0)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_group_costs_its_prompt_once_and_its_answers_once(algorithm: str, tmp_path: Path) -> None:
    counts = count_step(case(algorithm, ragged=True), tmp_path)
    (group,) = counts.groups
    assert len(set(group.answers)) > 2
    tokens = update_tokens([group])
    one = Work(
        vision=1,
        patches=counts.rollout.patches,
        tokens=tokens,
        positions=tokens,
        head=answer_tokens([group]),
        backward=1,
    )
    assert counts.update == one


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_group_without_signal_costs_no_update(algorithm: str, tmp_path: Path) -> None:
    counts = count_step(case(algorithm, groups=(False,)), tmp_path)
    assert counts.update == Work()
    assert counts.rollout.decoded > 0


def test_a_rollout_encodes_the_image_and_the_prompt_once_for_all_answers(tmp_path: Path) -> None:
    counts = count_step(case(size=8, length=12), tmp_path)
    (group,) = counts.groups
    assert group.answers == (12,) * 8
    side = 112 // 14
    assert counts.rollout == Work(
        images=1,
        vision=1,
        patches=side**2,
        tokens=group.prompt,
        positions=group.prompt,
        decoded=8 * 11,
        head=1 + 8 * 11,  # the first tokens of all answers have the same logits
    )
    assert group.prompt > side**2 // MERGED


def test_finished_answers_leave_the_batch(tmp_path: Path) -> None:
    counts = count_step(case(size=16, ragged=True, length=24), tmp_path)
    needed = sum(c - 1 for c in counts.groups[0].answers)
    # A row that has ended goes on until the next look.
    assert needed <= counts.rollout.decoded <= (needed + 16 * LOOK_EVERY) / KEEP_SHARE
    assert counts.rollout.decoded < 16 * (max(counts.groups[0].answers) - 1)


def test_only_groups_with_signal_are_trained(tmp_path: Path) -> None:
    several = case(groups=(True, False, True, False), ragged=True)
    counts = count_step(several, tmp_path)
    assert len(counts.groups) == 4
    assert (counts.rollout.images, counts.rollout.vision) == (4, 1)
    assert counts.rollout.tokens == sum(g.prompt for g in counts.groups)
    trained = [g for g in counts.groups if g.signal]
    assert without_layout(counts) == Work(
        vision=1, tokens=update_tokens(trained), head=answer_tokens(trained), backward=1
    )
    assert counts.update.positions == 2 * max(
        update_tokens([g]) for g in trained
    )  # a row per prompt

    both = replace(several, budget=max(g.prompt + g.images + sum(g.answers) for g in trained))
    split = count_step(both, tmp_path)
    assert split.groups == counts.groups
    assert without_layout(split) == Work(
        vision=2, tokens=update_tokens(trained), head=answer_tokens(trained), backward=2
    )
    assert split.update.positions == update_tokens(trained)  # nothing is padded


def test_equal_prompts_of_several_samples_share_one_prefix(tmp_path: Path) -> None:
    counts = count_step(case(groups=(True, True), same=True), tmp_path)
    one, other = counts.groups
    assert one.prompt == other.prompt
    assert (counts.rollout.images, counts.rollout.vision, counts.rollout.patches) == (1, 1, 64)
    assert counts.update == Work(
        vision=1,
        patches=64,
        tokens=one.prompt + 16 * 11,
        positions=one.prompt + 16 * 11,
        head=16 * 12,
        backward=1,
    )


def test_a_group_beyond_the_budget_carries_its_prompt_with_each_part(tmp_path: Path) -> None:
    whole = count_step(case(), tmp_path)
    (group,) = whole.groups
    half = count_step(case(budget=group.prompt + group.images + 4 * 12), tmp_path)
    assert without_layout(half) == Work(
        vision=2, tokens=2 * group.prompt + 8 * 11, head=96, backward=2
    )


def test_a_frozen_tower_encodes_an_image_once_for_rollout_and_update(tmp_path: Path) -> None:
    counts = count_step(case(freeze=("vision", "projector")), tmp_path)
    assert (counts.rollout.vision, counts.update.vision) == (1, 0)


def test_gvpo_and_a_kl_penalty_cost_a_forward_of_the_reference(tmp_path: Path) -> None:
    """GVPO also trains groups of equal rewards; with `initial`, as with a KL penalty, the reference runs forward once."""
    flat = count_step(StepCase(algorithm="gvpo", groups=(False,)), tmp_path)
    (group,) = flat.groups
    plain = Work(vision=1, tokens=update_tokens([group]), head=answer_tokens([group]), backward=1)
    assert without_layout(flat) == plain
    again = replace(plain, vision=2, tokens=2 * plain.tokens, head=2 * plain.head)
    for algorithm in ({"name": "gvpo", "objective": {"reference": "initial"}}, {"name": "grpo"}):
        for signal in (True, False):
            assert (
                without_layout(
                    count_step(StepCase(algorithm=algorithm, groups=(signal,)), tmp_path)
                )
                == again
            )


@pytest.mark.parametrize("select", [{"name": "cppo", "share": 0.5}, {"name": "pods", "keep": 4}])
def test_selection_saves_answers_but_not_the_prompt(select: dict[str, Any], tmp_path: Path) -> None:
    counts = count_step(StepCase(algorithm={"name": "dr_grpo", "select": select}), tmp_path)
    (group,) = counts.groups
    half = Work(vision=1, tokens=group.prompt + 4 * 11, head=4 * 12, backward=1)
    assert without_layout(counts) == half
    assert len(group.answers) == 8


def test_dynamic_sampling_costs_rollouts_and_saves_no_update(tmp_path: Path) -> None:
    """Groups without signal are not trained without it either."""
    again = {"name": "dr_grpo", "keep": {"name": "dynamic_sampling", "max_attempts": 2}}
    counts = count_step(StepCase(algorithm=again, groups=(True, False) * 4, prompts=4), tmp_path)
    trained = [g for g in counts.groups if g.signal]
    assert (len(counts.groups), len(trained), counts.rollout.images) == (8, 4, 8)
    assert counts.rollout.decoded == 8 * 8 * 11
    assert without_layout(counts) == Work(
        vision=1, tokens=update_tokens(trained), head=4 * 96, backward=1
    )
