"""What a step costs, in exact integers counted by hooks on the modules of a small real policy (benchmarks.counts).

The law: an update feeds each distinct prompt once and of each answer all tokens but the last, from which nothing is
predicted: P + Σ(C − 1) tokens; the head runs on ΣC rows; a group that teaches nothing costs none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.memory.limits import KEEP_SHARE
from vlrft.testing.count_step import Case, Counted, Played, count
from vlrft.testing.work_meter import Work

MERGED = 4  # patches that become one token of a prompt
METHODS: dict[str, dict[str, Any]] = {  # as published, without a KL penalty, every group kept
    "gpg": {"keep": "all"},
    "grpo": {"regularize": {"kl": 0.0}},
    "dr_grpo": {},
    "gmpo": {},
    "gspo": {},
    "cw_grpo": {"regularize": {"kl": 0.0}},
}


def case(method: str = "gpg", **settings: Any) -> Case:
    return Case(method={"name": method, **METHODS.get(method, {})}, **settings)


def fed(groups: Sequence[Played]) -> int:
    return sum(g.prompt + sum(c - 1 for c in g.answers) for g in groups)


def sampled(groups: Sequence[Played]) -> int:
    return sum(sum(g.answers) for g in groups)


def rest_of(found: Counted) -> Work:
    """An update's work without what depends on the layout of images and padding."""
    return replace(found.update, patches=0, positions=0)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_group_costs_its_prompt_once_and_its_answers_once(method: str, tmp_path: Path) -> None:
    found = count(case(method, ragged=True), tmp_path)
    (group,) = found.played
    assert len(set(group.answers)) > 2
    tokens = fed([group])
    one = Work(
        vision=1,
        patches=found.rollout.patches,
        tokens=tokens,
        positions=tokens,
        head=sampled([group]),
        backward=1,
    )
    assert found.update == one


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_group_that_teaches_nothing_costs_no_update(method: str, tmp_path: Path) -> None:
    found = count(case(method, groups=(False,)), tmp_path)
    assert found.update == Work()
    assert found.rollout.decoded > 0


def test_a_rollout_sees_and_reads_the_prompt_once_for_all_its_answers(tmp_path: Path) -> None:
    found = count(case(size=8, length=12), tmp_path)
    (group,) = found.played
    assert group.answers == (12,) * 8
    side = 112 // 14
    assert found.rollout == Work(
        images=1,
        vision=1,
        patches=side**2,
        tokens=group.prompt,
        positions=group.prompt,
        decoded=8 * 11,
        head=8 * 12,
    )
    assert group.prompt > side**2 // MERGED


def test_answers_that_have_ended_leave_the_batch(tmp_path: Path) -> None:
    found = count(case(size=16, ragged=True, length=24), tmp_path)
    needed = sum(c - 1 for c in found.played[0].answers)
    assert needed <= found.rollout.decoded <= needed / KEEP_SHARE
    assert found.rollout.decoded < 0.7 * 16 * max(found.played[0].answers)


def test_of_several_groups_only_those_that_teach_are_trained(tmp_path: Path) -> None:
    several = case(groups=(True, False, True, False), ragged=True)
    found = count(several, tmp_path)
    assert len(found.played) == 4
    assert (found.rollout.images, found.rollout.vision) == (4, 1)
    assert found.rollout.tokens == sum(g.prompt for g in found.played)
    taught = [g for g in found.played if g.teaches]
    assert rest_of(found) == Work(vision=1, tokens=fed(taught), head=sampled(taught), backward=1)
    assert found.update.positions == 2 * max(fed([g]) for g in taught)  # a row a prompt

    both = replace(several, budget=max(g.prompt + sum(g.answers) for g in taught))
    split = count(both, tmp_path)
    assert split.played == found.played
    assert rest_of(split) == Work(vision=2, tokens=fed(taught), head=sampled(taught), backward=2)
    assert split.update.positions == fed(taught)  # nothing is padded


def test_equal_prompts_of_several_samples_are_one_prefix(tmp_path: Path) -> None:
    found = count(case(groups=(True, True), same=True), tmp_path)
    one, other = found.played
    assert one.prompt == other.prompt
    assert (found.rollout.images, found.rollout.vision, found.rollout.patches) == (1, 1, 64)
    assert found.update == Work(
        vision=1,
        patches=64,
        tokens=one.prompt + 16 * 11,
        positions=one.prompt + 16 * 11,
        head=16 * 12,
        backward=1,
    )


def test_a_group_beyond_the_budget_carries_its_prompt_with_each_part(tmp_path: Path) -> None:
    whole = count(case(), tmp_path)
    (group,) = whole.played
    half = count(case(budget=group.prompt + 4 * 12), tmp_path)
    assert rest_of(half) == Work(vision=2, tokens=2 * group.prompt + 8 * 11, head=96, backward=2)


def test_a_frozen_tower_sees_an_image_once_for_rollout_and_update(tmp_path: Path) -> None:
    found = count(case(freeze=("vision", "projector")), tmp_path)
    assert (found.rollout.vision, found.update.vision) == (1, 0)


def test_what_gvpo_and_a_kl_penalty_cost(tmp_path: Path) -> None:
    """GVPO trains groups without spread; with `initial`, as with a KL penalty, the reference runs forward once more."""
    flat = count(Case(method="gvpo", groups=(False,)), tmp_path)
    (group,) = flat.played
    plain = Work(vision=1, tokens=fed([group]), head=sampled([group]), backward=1)
    assert rest_of(flat) == plain
    again = replace(plain, vision=2, tokens=2 * plain.tokens, head=2 * plain.head)
    for method in ({"name": "gvpo", "objective": {"reference": "initial"}}, {"name": "grpo"}):
        for teaches in (True, False):
            assert rest_of(count(Case(method=method, groups=(teaches,)), tmp_path)) == again


@pytest.mark.parametrize("select", [{"name": "cppo", "share": 0.5}, {"name": "pods", "keep": 4}])
def test_selection_saves_answers_but_not_the_prompt(select: dict[str, Any], tmp_path: Path) -> None:
    found = count(Case(method={"name": "dr_grpo", "select": select}), tmp_path)
    (group,) = found.played
    half = Work(vision=1, tokens=group.prompt + 4 * 11, head=4 * 12, backward=1)
    assert rest_of(found) == half
    assert len(group.answers) == 8


def test_dynamic_sampling_costs_rollouts_and_spares_no_update(tmp_path: Path) -> None:
    """Groups that teach nothing are not trained without it either."""
    again = {"name": "dr_grpo", "keep": {"name": "dynamic_sampling", "max_attempts": 2}}
    found = count(Case(method=again, groups=(True, False) * 4, prompts=4), tmp_path)
    taught = [g for g in found.played if g.teaches]
    assert (len(found.played), len(taught), found.rollout.images) == (8, 4, 8)
    assert found.rollout.decoded == 8 * 8 * 11
    assert rest_of(found) == Work(vision=1, tokens=fed(taught), head=4 * 96, backward=1)
