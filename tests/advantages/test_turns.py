"""Credit by turn, against loops over the rows of an episode."""

from __future__ import annotations

from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, Plays, advantages, find_estimator

Episode = list[tuple[float, str]]  # (reward, observation) of each turn


def slow(groups: list[list[Episode]], weight: float, discount: float) -> list[float]:
    """A number a row, episode after episode."""
    out: list[float] = []
    for episodes in groups:
        totals = [sum(r for r, _ in e) for e in episodes]
        returns = [
            [sum(discount ** (k - t) * e[k][0] for k in range(t, len(e))) for t in range(len(e))]
            for e in episodes
        ]
        places: dict[str, list[float]] = {}
        for e, own in zip(episodes, returns, strict=True):
            for (_, place), value in zip(e, own, strict=True):
                places.setdefault(place, []).append(value)
        for e, own, total in zip(episodes, returns, totals, strict=True):
            for (_, place), value in zip(e, own, strict=True):
                out.append(among(total, totals) + weight * among(value, places[place]))
    return out


def among(value: float, others: list[float]) -> float:
    if max(others) - min(others) <= 1e-6:
        return 0.0
    return (value - fmean(others)) / (stdev(others) + 1e-6)


def plays_of_episodes(groups: list[list[Episode]]) -> Plays:
    episodes = [(g, e) for g, group in enumerate(groups) for e in group]
    rows = [(i, g, t, r, o) for i, (g, e) in enumerate(episodes) for t, (r, o) in enumerate(e)]
    places = sorted({(g, o) for _, g, _, _, o in rows})
    return step_of(
        [sum(r for r, _ in e) for _, e in episodes],
        [g for g, _ in episodes],
        rows=[i for i, *_ in rows],
        step_rewards=np.array([r for *_, r, _ in rows]),
        anchors=np.array([places.index((g, o)) for _, g, _, _, o in rows]),
        turns=np.array([t for _, _, t, _, _ in rows]),
    )


turns = st.tuples(st.sampled_from([0.0, 0.0, 1.0, -0.1, 10.0]), st.sampled_from("abc"))
steps_of_groups = st.lists(
    st.lists(st.lists(turns, min_size=1, max_size=4), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(steps_of_groups, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_gigpo_is_the_episode_plus_the_step(
    groups: list[list[Episode]], weight: float, discount: float
) -> None:
    last = {"step": "add_step", "weight": weight, "discount": discount}
    found = advantages(plays_of_episodes(groups), find_estimator(["centre", "scale", last]))
    expected = slow(groups, weight, discount)
    assert [float(a[0]) for a in found] == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_gigpo_by_hand() -> None:
    """Both win; the one that wins at once is preferred where both began, and no other row is compared."""
    plays = plays_of_episodes([[[(10.0, "hall")], [(0.0, "hall"), (10.0, "room")]]])
    found = [float(a[0]) for a in advantages(plays, ESTIMATORS["gigpo"])]
    assert found == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0], rel=1e-5)
    plain = find_estimator(["centre", {"step": "add_step", "scale": False}])
    assert [float(a[0]) for a in advantages(plays, plain)] == pytest.approx([0.25, -0.25, 0.0])


def test_rows_need_not_stand_in_the_order_of_their_turns() -> None:
    plays = step_of(
        [1.0, 0.0],
        [0, 0],
        rows=[0, 1, 0, 1],
        turns=np.array([1, 0, 0, 1]),
        step_rewards=np.array([1.0, 0.0, 0.0, 0.0]),
        anchors=np.array([0, 1, 1, 0]),
    )
    plain = find_estimator([{"step": "add_step", "scale": False, "discount": 0.5}])
    assert plain(plays).by_row is not None
    assert [float(a[0]) for a in advantages(plays, plain)] == [1.5, -0.25, 1.25, -0.5]


def test_what_other_steps_gave_a_row_stays() -> None:
    plays = plays_of_episodes([[[(10.0, "hall")], [(0.0, "hall"), (10.0, "room")]]])
    once = find_estimator([{"step": "add_step"}])(plays)
    twice = find_estimator([{"step": "add_step"}, {"step": "add_step"}])(plays)
    assert once.by_row is not None
    assert twice.by_row is not None
    assert twice.by_row.tolist() == (2 * once.by_row).tolist()
    assert once.by_row.any()
