"""Objectives beyond GRPO's family: limits in which one is another, settings that no algorithm has, and wrong versions that
the references reject."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.mutants import MUTANTS
from tests.objectives.reference import FROZEN, REFERENCES, Case, random_case
from tests.objectives.reference.off_policy import rec_at
from tests.objectives.reference.sets import LONGEST, disco_at
from tests.objectives.rows import padded, step
from tests.objectives.test_core import CASES, assert_the_papers_formula
from vlrft.algorithms import find_algorithm
from vlrft.objectives.dynamic_clip import DynamicClip
from vlrft.schema.errors import ObjectiveError

NO_KL: dict[str, Any] = {"regularize": {"kl": 0.0}}
BINARY = random_case(2, sizes=[4, 5, 3, 4], levels=(0.0, 1.0))
OFF = random_case(3, sizes=[4, 3], spread=1.5, levels=(0.0, 0.3, 1.0))
LENGTH: dict[str, Any] = {"extras": {"length": LONGEST}}


def on_policy(case: Case) -> Case:
    return replace(case, old=case.logprobs)


def assert_equal(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_version_is_rejected_by_the_reference(name: str) -> None:
    settings: dict[str, Any] = {"name": f"tests.objectives.mutants:{MUTANTS[name]}"}
    if name == "drpo":
        settings["length_temperature"] = 0.1
    with pytest.raises(AssertionError):
        assert_the_papers_formula(name, CASES[1], objective=settings)


@pytest.mark.parametrize("name", ["simple_po", "dcpo_clip"])
def test_on_policy_the_gradient_is_grpos(name: str) -> None:
    case = on_policy(OFF)
    assert_equal(step(name, case)[1], step("grpo", case, **NO_KL)[1])


def test_the_parabola_is_flat_at_one_plus_epsilon_and_nowhere_else() -> None:
    moves = torch.tensor([0.7, 0.8, 1.0, 1.2, 1.3], dtype=torch.float64).log()
    case = Case([moves.tolist()] * 2, [1.0, 0.0], [0, 0], [[0.0] * 5] * 2, [[0.0] * 5] * 2)
    gradient = step("simple_po", case)[1]
    assert [abs(float(g)) < 1e-12 for g in gradient[0]] == [False, False, False, True, False]
    assert [abs(float(g)) < 1e-12 for g in gradient[1]] == [False, True, False, False, False]


def test_dynamic_bounds_solve_their_equation_and_widen_for_rare_tokens() -> None:
    q = torch.tensor([[1.0, 0.9, 0.5, 0.2, 0.01]], dtype=torch.float64)
    low, high = DynamicClip().bounds(q.log())
    assert_equal((high * (high - 1) * q)[0, :4], torch.full((4,), 0.28, dtype=torch.float64))
    assert_equal((low * (1 - low) * q)[0, :2], torch.full((2,), 0.2, dtype=torch.float64))
    assert low[0, 3:].tolist() == [0.5, 0.5]  # q < 4 ε
    assert float(low[0, 0]) == pytest.approx(0.724, abs=1e-3)
    assert float(high[0, 0]) == pytest.approx(1.228, abs=1e-3)
    assert bool((high.diff() > 0).all())
    assert float(DynamicClip().bounds(torch.tensor([[-1e4]]))[1]) == 10.0


@pytest.mark.parametrize("range_", ["none", "one_side", "two_side", "ring", "sequence"])
def test_rec_on_policy_is_reinforce_without_a_standard_deviation(range_: str) -> None:
    case = on_policy(OFF)
    ours = step("rec", case, objective={"range": range_})
    theirs = step("gpg_rs_released", case, advantage="centred")
    assert_equal(ours[1], theirs[1])


def test_recs_ranges_are_nested_and_the_ratio_does_not_scale_what_is_inside() -> None:
    order = ("two_side", "ring", "one_side", "none")
    gradients = {r: step("rec", OFF, objective={"range": r})[1] for r in order}
    kept = [gradients[r] != 0 for r in order]
    ring_only = kept[1] & ~kept[0]
    assert ring_only.any()
    assert (kept[2] & ~kept[0]).any()
    assert (kept[3] & ~kept[2]).any()
    assert not (kept[0] & ~kept[1]).any()
    assert not (kept[0] & ~kept[2]).any()
    for r, mask in zip(order, kept, strict=True):
        assert torch.equal(gradients[r][mask], gradients["none"][mask])


@pytest.mark.parametrize("range_", ["none", "two_side", "one_side", "ring", "sequence"])
@pytest.mark.parametrize("weight", ["one", "ratio", "truncated", "sequence", "advantage"])
def test_recs_settings_equal_their_formula(range_: str, weight: str) -> None:
    regularizer = {"one": "k2", "advantage": "forward_kl"}.get(weight, "none")
    objective = {
        "range": range_,
        "weight": weight,
        "regularizer": regularizer,
        "coefficient": None if regularizer == "none" else 0.3,
    }
    by_row = range_ == "sequence"
    result = step("rec", OFF, objective=objective, reduction="sequence" if by_row else "token")[0]
    expected = rec_at(OFF, OFF, range_, weight, regularizer, 0.3, by_row)
    assert float(result.loss.detach()) == pytest.approx(expected, abs=1e-12)


def test_a_regulariser_of_rec_asks_for_groups_of_equal_rewards() -> None:
    asks = {"name": "rec", "objective": {"regularizer": "k2", "coefficient": 0.1}}
    assert find_algorithm(asks).needs.zero_signal_groups
    assert not find_algorithm("rec").needs.zero_signal_groups


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ({"wrong": "mean"}, {"wrong_mean": True}),
        ({"score": "ratio"}, {"by_ratio": True, "tau": 1.0}),
        ({"tau": 0.5, "divergence": "low_variance"}, {"tau": 0.5, "low_variance": True}),
        ({"beta": 0.0}, {"beta": 0.0}),
    ],
)
def test_discos_settings_equal_their_formula(
    objective: dict[str, Any], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REFERENCES, "disco", lambda case: disco_at(case, case, **settings))
    monkeypatch.setitem(FROZEN, "disco", lambda case, point: disco_at(case, point, **settings))
    assert_the_papers_formula("disco", BINARY, objective=objective)


def test_disco_with_a_large_tau_is_disco_b_whose_gradient_is_reinforce_on_shares() -> None:
    case = on_policy(BINARY)
    by_mean = step("disco", case, objective={"wrong": "mean"})[1]
    assert_equal(step("disco", case, objective={"tau": 1e14})[1], by_mean)
    shares = torch.zeros_like(by_mean)
    for g in case.groups():
        right = [b for b in g if case.rewards[b] == 1]
        wrong = [b for b in g if case.rewards[b] == 0]
        for b in g if right and wrong else []:
            side = 1 / len(right) if b in right else -1 / len(wrong)
            shares[b] = side / len(case.logprobs[b])
    assert_equal(step("sft", case, advantages=shares, reduction="group_sum")[1], by_mean)


def test_disco_is_unchanged_by_a_constant_added_to_a_groups_scores_and_wrong_weights_add_to_one() -> (
    None
):
    case = on_policy(BINARY)
    moved = [[v - 0.7 for v in row] for row in case.logprobs]
    shifted = replace(case, logprobs=moved, old=moved)
    one, other = step("disco", case), step("disco", shifted)
    assert_equal(one[1], other[1])
    assert_equal(one[0].loss.detach(), other[0].loss.detach())
    sums = one[1].sum(1)
    for g in case.groups():
        assert_equal(sums[g].sum(), torch.zeros((), dtype=torch.float64))  # right −1, wrong +1


def test_discos_hinge_has_exactly_no_gradient_within_the_trust_region() -> None:
    near = replace(BINARY, old=[[v + 1e-7 for v in row] for row in BINARY.logprobs])
    far = replace(BINARY, old=[[v + 0.01 for v in row] for row in BINARY.logprobs])
    for case, touched in ((near, False), (far, True)):
        free = step("disco", case, objective={"beta": 0.0})[1]
        assert torch.equal(step("disco", case)[1], free) is not touched
    assert step("disco", far)[0].metrics["disco/outside_trust_region"] == 1.0
    assert not find_algorithm(
        {"name": "disco", "objective": {"beta": 0.0}}
    ).needs.zero_signal_groups


def test_drpo_with_a_large_temperature_is_disco_and_never_discourages_a_right_answer() -> None:
    mild = step("drpo", BINARY, objective={"length_temperature": 1e15}, **LENGTH)
    plain = step("disco", BINARY)
    assert_equal(mild[1], plain[1])
    gradient = step("drpo", on_policy(BINARY), **LENGTH)[1]
    right = [b for b, r in enumerate(BINARY.rewards) if r == 1]
    assert bool((gradient[right] <= 0).all())
    with pytest.raises(ObjectiveError, match="longest completion"):
        step("drpo", BINARY)


def test_trpa_on_one_pair_of_equal_lengths_is_dpo() -> None:
    rows = [[-0.4, -1.2, -0.9], [-2.0, -0.3, -0.1]]
    ref = [[-0.5, -1.0, -1.0], [-1.5, -0.2, -0.4]]
    case = Case(rows, [1.0, 0.0], [0, 0], rows, ref)
    ours = step("trpa", case, objective={"anisotropy": 1.0, "beta": 0.3, "trust_region": 0.0})
    theirs = step("dpo", case, objective={"beta": 0.1})  # β / n
    assert_equal(ours[1], theirs[1])
    assert_equal(ours[0].loss.detach(), theirs[0].loss.detach())


def test_at_the_reference_each_pair_of_trpa_pulls_with_half_of_beta() -> None:
    rows = padded([[-0.5, -0.5], [-0.5, -0.5]]).tolist()
    case = Case(rows, [0.5, 0.0], [0, 0], rows, rows)
    gradient = step("trpa", case)[1]
    assert_equal(gradient.sum(1), torch.tensor([-0.05, 0.05], dtype=torch.float64))
    best = step("trpa", replace(case, rewards=[1.0, 0.0]))[1]
    assert_equal(best, 2.5 * gradient)
    assert math.isclose(float(step("trpa", case)[0].loss.detach()), math.log(2), abs_tol=1e-12)
