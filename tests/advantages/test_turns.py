"""Credit by turn, against loops over the turns of an episode."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, EstimatorInput, estimate_advantages, find_estimator

Episode = list[tuple[float, str]]  # (reward, observation) of each turn


def reference(groups: list[list[Episode]], weight: float, discount: float) -> list[float]:
    """An advantage for each turn, episode after episode."""
    out: list[float] = []
    for episodes in groups:
        totals = [sum(r for r, _ in e) for e in episodes]
        returns = [
            [sum(discount ** (k - t) * e[k][0] for k in range(t, len(e))) for t in range(len(e))]
            for e in episodes
        ]
        places: dict[str, list[float]] = {}
        for e, episode_returns in zip(episodes, returns, strict=True):
            for (_, place), value in zip(e, episode_returns, strict=True):
                places.setdefault(place, []).append(value)
        for e, episode_returns, total in zip(episodes, returns, totals, strict=True):
            for (_, place), value in zip(e, episode_returns, strict=True):
                out.append(
                    standardise_among(total, totals)
                    + weight * standardise_among(value, places[place])
                )
    return out


def standardise_among(value: float, others: list[float]) -> float:
    if max(others) - min(others) <= 1e-6:
        return 0.0
    return (value - fmean(others)) / (stdev(others) + 1e-6)


def input_of_episodes(groups: list[list[Episode]]) -> EstimatorInput:
    episodes = [(g, e) for g, group in enumerate(groups) for e in group]
    rows = [(i, g, t, r, o) for i, (g, e) in enumerate(episodes) for t, (r, o) in enumerate(e)]
    places = sorted({(g, o) for _, g, _, _, o in rows})
    return step_of(
        [sum(r for r, _ in e) for _, e in episodes],
        [g for g, _ in episodes],
        rollouts=[i for i, *_ in rows],
        step_rewards=np.array([r for *_, r, _ in rows]),
        anchors=np.array([places.index((g, o)) for _, g, _, _, o in rows]),
        places=np.array([t for _, _, t, _, _ in rows]),
    )


turns = st.tuples(st.sampled_from([0.0, 0.0, 1.0, -0.1, 10.0]), st.sampled_from("abc"))
steps_of_groups = st.lists(
    st.lists(st.lists(turns, min_size=1, max_size=4), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(steps_of_groups, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_gigpo_adds_the_credit_of_the_episode_and_of_the_step(
    groups: list[list[Episode]], weight: float, discount: float
) -> None:
    last = {"step": "add_step", "weight": weight, "discount": discount}
    result = estimate_advantages(
        input_of_episodes(groups), find_estimator(["centre", "scale", last])
    )
    expected = reference(groups, weight, discount)
    assert [float(a[0]) for a in result] == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_gigpo_by_hand() -> None:
    """Both win; the one that wins at once is better where both start, and no other turn is compared."""
    inputs = input_of_episodes([[[(10.0, "hall")], [(0.0, "hall"), (10.0, "room")]]])
    result = [float(a[0]) for a in estimate_advantages(inputs, ESTIMATORS["gigpo"])]
    assert result == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0], rel=1e-5)
    plain = find_estimator(["centre", {"step": "add_step", "scale": False}])
    assert [float(a[0]) for a in estimate_advantages(inputs, plain)] == pytest.approx(
        [0.25, -0.25, 0.0]
    )


def test_turns_may_come_in_any_order() -> None:
    inputs = step_of(
        [1.0, 0.0],
        [0, 0],
        rollouts=[0, 1, 0, 1],
        places=np.array([1, 0, 0, 1]),
        step_rewards=np.array([1.0, 0.0, 0.0, 0.0]),
        anchors=np.array([0, 1, 1, 0]),
    )
    plain = find_estimator([{"step": "add_step", "scale": False, "discount": 0.5}])
    assert plain(inputs).by_turn is not None
    assert [float(a[0]) for a in estimate_advantages(inputs, plain)] == [1.5, -0.25, 1.25, -0.5]


def test_credit_that_another_step_gave_a_turn_is_kept() -> None:
    inputs = input_of_episodes([[[(10.0, "hall")], [(0.0, "hall"), (10.0, "room")]]])
    once = find_estimator([{"step": "add_step"}])(inputs)
    twice = find_estimator([{"step": "add_step"}, {"step": "add_step"}])(inputs)
    assert once.by_turn is not None
    assert twice.by_turn is not None
    assert twice.by_turn.tolist() == (2 * once.by_turn).tolist()
    assert once.by_turn.any()


def three_episodes() -> EstimatorInput:
    """One group. The first wins in two turns, the second in three, the third never: its second of four turns is no action.

    1  hall, room → 10           R = 10
    2  hall, hall, room → 10     R = 10
    3  hall, bad, room, room     R = −0.1
    """
    anchors = [0, 1, 0, 0, 1, 0, 2, 1, 1]
    return step_of(
        [10.0, 10.0, -0.1],
        [0, 0, 0],
        rollouts=[0, 0, 1, 1, 1, 2, 2, 2, 2],
        places=np.array([0, 1, 0, 1, 2, 0, 1, 2, 3]),
        step_rewards=np.array([0, 10.0, 0, 0, 10.0, 0, 0, 0, 0]),
        penalties=np.array([0, 0, 0, 0, 0, 0, 0.1, 0, 0]),
        anchors=np.array(anchors),
    )


def test_three_episodes_by_hand() -> None:
    """With γ = 1/2: the returns are 5, 10 | 2.5, 5, 10 | 0, −0.1, 0, 0; those of the hall 5, 2.5, 5, 0 have the mean 3.125,
    those of the room 10, 10, 0, 0 the mean 5; nothing is compared with the bad turn. Where penalties are discounted the
    third hall's return is −0.05 and the mean 3.1125."""
    assert credit(discount=0.5) == pytest.approx([1.875, 5, -0.625, 1.875, 5, -3.125, 0, -5, -5])
    steps = [1.8875, 5, -0.6125, 1.8875, 5, -3.1625, 0, -5, -5]
    assert credit(discount=0.5, discount_penalties=True) == pytest.approx(steps)


def credit(**settings: Any) -> list[float]:
    """The credit that `add_step` adds to that of the episode."""
    step = {"step": "add_step", "scale": False, **settings}
    plain = find_estimator(["centre", step])
    result = [float(a[0]) for a in estimate_advantages(three_episodes(), plain)]
    means = [10 - 19.9 / 3] * 5 + [-0.1 - 19.9 / 3] * 4
    return [a - b for a, b in zip(result, means, strict=True)]


def test_a_group_without_a_valid_action_has_no_advantage() -> None:
    """However long its episodes: a turn's index alone earns nothing."""
    turns = [[(0.0, "hall")] * 5] * 3
    inputs = replace(input_of_episodes([turns]), penalties=np.full(15, 0.1))
    dead = replace(inputs, values=np.full(3, -0.5))
    for name in ("gigpo", "gigpo_turns"):
        assert all(a.tolist() == [0.0] for a in estimate_advantages(dead, ESTIMATORS[name])), name


def test_three_episodes_by_trajectory_and_by_turn() -> None:
    """By trajectory: mean 19.9 / 3, unbiased std of 10, 10, −0.1. By turn: 5 turns of 10, 3 of 0 and one of −0.1, for the
    others do not pay for it; mean 49.9 / 9."""
    by_trajectory = [
        float(a[0]) for a in estimate_advantages(three_episodes(), ESTIMATORS["standardised"])
    ]
    std = stdev([10, 10, -0.1])
    win, loss = (10 - 19.9 / 3) / std, (-0.1 - 19.9 / 3) / std
    assert by_trajectory == pytest.approx([win] * 5 + [loss] * 4, rel=1e-5)
    rows = [10.0] * 5 + [0.0, -0.1, 0.0, 0.0]
    expected = [(v - 49.9 / 9) / stdev(rows) for v in rows]
    turns = estimate_advantages(three_episodes(), ESTIMATORS["standardised_turns"])
    assert [float(a[0]) for a in turns] == pytest.approx(expected, rel=1e-5)


def test_the_released_gigpo_compares_turns() -> None:
    """The third hall's return is 0, and the bad turn is alone."""
    plain = find_estimator([{"step": "add_step", "scale": False}, "each_turn", "centre"])
    result = [float(a[0]) for a in estimate_advantages(three_episodes(), plain)]
    halls = [9.5, 9.025, 9.5, 0.0]
    rooms = [10.0, 10.0, 0.0, 0.0]
    steps = [
        9.5 - fmean(halls),
        5,
        9.025 - fmean(halls),
        9.5 - fmean(halls),
        5,
        -fmean(halls),
        0,
        -5,
        -5,
    ]
    assert rooms[0] - fmean(rooms) == 5
    rows = [10.0] * 5 + [0.0, -0.1, 0.0, 0.0]
    expected = [v - 49.9 / 9 + a for v, a in zip(rows, steps, strict=True)]
    assert result == pytest.approx(expected)


def test_each_turn_may_be_the_first_or_the_last_step() -> None:
    last = find_estimator([{"step": "add_step"}, "each_turn", "centre", "scale"])
    first = find_estimator(["each_turn", "centre", "scale", {"step": "add_step"}])
    pairs = zip(
        estimate_advantages(three_episodes(), last),
        estimate_advantages(three_episodes(), first),
        strict=True,
    )
    assert all(a.tolist() == b.tolist() for a, b in pairs)


def test_turns_that_answer_the_same_observation_are_a_group_of_their_own() -> None:
    steps: list[Any] = ["each_turn", {"step": "centre", "key": "module"}]
    inputs = step_of(
        [1.0, 0.0],
        [0, 0],
        rollouts=[0, 0, 1, 1],
        anchors=np.array([0, 1, 0, 2]),
        places=np.array([0, 1, 0, 1]),
    )
    values = find_estimator(steps)(inputs).values
    assert values.tolist() == [0.5, 0.0, -0.5, 0.0]  # the first turns; the second ones are alone
    once = step_of([1.0, 0.0, 1.0], [0, 0, 0], anchors=np.array([0, 0, 0]))
    alone = find_estimator(["centre"])(once).values
    assert find_estimator(steps)(once).values.tolist() == alone.tolist()
