"""Every named estimator against its reference, and changes of the input that must not change its result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.advantages.context_reference import history_of
from tests.advantages.reference import REFERENCES, Toy, differ
from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, EstimatorInput, valid_groups

GROUP = np.array([0, 0, 0, 1, 1, 2])
REWARDS = np.array([1.0, 0.0, 0.0, 0.5, 0.5, 3.0])
NEED_OTHERS = {"rloo"}  # refuse a group of one
BY_GROUP = sorted(set(ESTIMATORS) - {"one", "reward", "remax"})

UNTIMED = settings(deadline=None)  # a loaded machine must not fail a test

amounts = st.sampled_from([0.0, 0.1, 0.5, float(np.float32(0.9)), 0.9, 1.0, -2.0, 7.25])
noise = st.sampled_from([0.0, 0.0, 1e-8, -2e-8])  # float32 rounding of equal rewards


@st.composite
def toys(draw: st.DrawFn, smallest: int = 1) -> Toy:
    """Ragged groups, many with ties, in any order."""
    sizes = draw(st.lists(st.integers(smallest, 5), min_size=1, max_size=5))
    labels = draw(st.permutations([k for k, n in enumerate(sizes) for _ in range(n)]))
    n = len(labels)

    def numbers(of: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(of, min_size=n, max_size=n))

    rewards = [a + b for a, b in zip(numbers(amounts), numbers(noise), strict=True)]
    baseline = draw(st.lists(amounts, min_size=len(sizes), max_size=len(sizes)))
    return Toy(
        rewards=rewards,
        group=labels,
        tokens=draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)),
        greedy=[baseline[k] for k in labels],
        scores={
            "choice": numbers(amounts | st.just(float("nan"))),
            "format": numbers(amounts),
            "unused": numbers(amounts),
        },
        weights={"choice": 1.0, "format": 0.25},
        max_tokens=10,
    )


def input_of(toy: Toy) -> EstimatorInput:
    return step_of(
        toy.rewards,
        toy.group,
        turn_tokens=toy.tokens,
        greedy=np.array(toy.greedy),
        scores={k: np.array(v) for k, v in toy.scores.items()},
        progress=toy.progress,
        known={"value": np.array(toy.greedy)},
        history={k: np.array(v) for k, v in history_of(toy).items()} if toy.past else {},
        signals={k: tuple(np.array(row) for row in rows) for k, rows in toy.signals.items()},
        weights=toy.weights,
        max_tokens=toy.max_tokens,
        truncated=np.array(toy.truncated or [False] * len(toy.rewards), dtype=np.bool_),
    )


def estimate(name: str, toy: Toy) -> list[float]:
    return [float(a) for a in ESTIMATORS[name](input_of(toy)).values]


def by_hand(name: str, rewards: np.ndarray = REWARDS) -> list[float]:
    return [float(a) for a in ESTIMATORS[name](step_of(rewards, GROUP)).values]


def test_every_estimator_has_a_reference_a_doc_and_an_equation() -> None:
    assert set(REFERENCES) == set(ESTIMATORS)
    for estimator in ESTIMATORS.values():
        assert estimator.doc.endswith(".")
        assert "A" in estimator.equation


@UNTIMED
@given(toy=toys())
def test_every_estimator_equals_its_reference(toy: Toy) -> None:
    alone = any(toy.group.count(k) == 1 for k in toy.group)
    for name in set(REFERENCES) - (NEED_OTHERS if alone else set()):
        expected = REFERENCES[name](toy)
        assert estimate(name, toy) == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@UNTIMED
@given(toy=toys(smallest=2))
def test_a_group_without_signal_gets_exactly_zero(toy: Toy) -> None:
    flat = [m for m in toy.groups() if not differ([toy.rewards[i] for i in m])]
    for name in set(BY_GROUP) - {"gdpo", "dapo", "reinforce_pp"}:
        result = estimate(name, toy)
        assert all(result[i] == 0.0 for members in flat for i in members), name


@UNTIMED
@given(toy=toys())
def test_gdpo_gives_nothing_where_no_component_differs(toy: Toy) -> None:
    flat = {k: [0.9 + 1e-8 * (i % 2) for i in range(len(v))] for k, v in toy.scores.items()}
    assert estimate("gdpo", replace(toy, scores=flat)) == [0.0] * len(toy.rewards)


@UNTIMED
@given(toy=toys(smallest=2), constant=st.sampled_from([-3.0, 0.5, 100.0]))
def test_a_constant_added_to_a_groups_rewards_changes_nothing(toy: Toy, constant: float) -> None:
    rewards = [round(r, 6) for r in toy.rewards]  # ties survive rounding
    pairs = zip(rewards, toy.group, strict=True)
    shifted = replace(toy, rewards=[round(r + constant * (1 + k), 6) for r, k in pairs])
    for name in set(BY_GROUP) - {"gdpo"}:
        before = estimate(name, replace(toy, rewards=rewards))
        assert estimate(name, shifted) == pytest.approx(before, abs=1e-6), name


@UNTIMED
@given(toy=toys(), factor=st.sampled_from([0.5, 3.0, 40.0]))
def test_a_positive_factor_changes_nothing_where_there_is_a_division_by_a_std(
    toy: Toy, factor: float
) -> None:
    """Except for ε, which is not scaled: σ is at least 0.02 here."""
    rewards = [round(r, 6) for r in toy.rewards]
    scaled = replace(toy, rewards=[factor * r for r in rewards])
    for name in ("standardised", "reinforce_pp", "batch_standardised"):
        before = estimate(name, replace(toy, rewards=rewards))
        assert estimate(name, scaled) == pytest.approx(before, rel=2e-4), name


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - NEED_OTHERS))
def test_a_step_without_rollouts_and_a_single_rollout_are_defined(name: str) -> None:
    none = Toy(rewards=[], group=[], tokens=[], greedy=[], scores={}, max_tokens=10)
    assert estimate(name, none) == []
    alone = Toy(rewards=[0.5], group=[0], tokens=[3], greedy=[0.5], scores={}, max_tokens=10)
    assert estimate(name, alone) == [{"one": 1.0, "reward": 0.5}.get(name, 0.0)]


def test_rloo_refuses_a_group_of_one_by_its_own_name() -> None:
    with pytest.raises(ValueError, match=r"advantage rloo: group 1 .* one rollout"):
        ESTIMATORS["rloo"](step_of([1.0, 0.0, 0.5], [0, 0, 1]))


def test_which_estimators_need_groups_and_greedy_answers() -> None:
    assert {n for n, e in ESTIMATORS.items() if e.greedy} == {"remax"}
    assert {n for n, e in ESTIMATORS.items() if e.min_group == 1} == {"one", "reward", "remax"}
    with pytest.raises(ValueError, match=r"advantage remax: .* greedy"):
        ESTIMATORS["remax"](step_of([1.0], [0]))


def test_centred_by_hand() -> None:
    assert by_hand("centred") == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])


def test_standardised_by_hand() -> None:
    std = (1 / 3) ** 0.5  # unbiased std of 1, 0, 0
    expected = [2 / 3 / std, -1 / 3 / std, -1 / 3 / std, 0, 0, 0]
    assert by_hand("standardised") == pytest.approx(expected, rel=1e-5)


def test_batch_standardised_by_hand() -> None:
    centred = np.array([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])
    assert by_hand("batch_standardised") == pytest.approx(
        (centred / centred.std(ddof=1)).tolist(), rel=1e-5
    )


def test_the_first_of_equal_answers_is_the_best_and_the_worst() -> None:
    assert by_hand("best_against_worst", np.array([0.0, 1.0, 1.0, 0.0, 0.0, 2.0])) == [
        -1.0,
        1.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("name", ["centred", "standardised", "batch_standardised", "reinforce_pp"])
def test_a_float32_tie_gives_exactly_zero(name: str) -> None:
    tie = np.full(6, np.float32(0.9), dtype=np.float32)
    nearly = 0.9 + np.array([0, 1e-8, 2e-8, 0, 0, 0])
    assert by_hand(name, tie) == [0.0] * 6
    assert by_hand(name, nearly) == [0.0] * 6


def test_valid_groups_need_spread_beyond_rounding() -> None:
    assert valid_groups(REWARDS, GROUP, 4).tolist() == [True, False, False, False]


@UNTIMED
@given(toy=toys())
def test_pipelines_equal_single_expressions_bit_by_bit(toy: Toy) -> None:
    """Three estimators as single expressions."""
    r, group = np.array(toy.rewards), np.array(toy.group)
    valid = valid_groups(r, group, int(group.max()) + 1)[group]
    counts = np.bincount(group)
    mean = (np.bincount(group, weights=r) / counts.clip(min=1))[group]
    centred = np.where(valid, r - mean, 0.0)
    std = np.sqrt(np.bincount(group, weights=centred**2) / np.maximum(counts - 1, 1))
    overall = float(centred.std(ddof=1)) if len(r) > 1 else 0.0
    assert estimate("centred", toy) == centred.tolist()
    assert estimate("standardised", toy) == (centred / (std[group] + 1e-6)).tolist()
    assert estimate("batch_standardised", toy) == (centred / (overall + 1e-6)).tolist()
