"""The wrong versions of tests/systems/mutations.py are rejected, and every method of the catalogue has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.objectives.reference import random_case
from tests.objectives.test_core import assert_the_papers_formula
from tests.systems.mutations import (
    PAGE,
    SETTINGS,
    WITHOUT,
    WRONG_CHOICES,
    all_mutations,
    mutation_of,
    own_mutation,
    page,
)
from vlrft.config.systems import System, all_systems
from vlrft.selection.rollout_filters import Cppo, Gfpo, Selector
from vlrft.testing.small_policies import group

METHODS = [
    s
    for s in all_systems().values()
    if s.runs and s.kind in ("objective", "advantage", "credit", "preference")
]
OFF = random_case(1, sizes=[4, 5, 2], spread=1.5, levels=(0.0, 0.5, 1.0))
CASE = replace(OFF, rewards=[*OFF.rewards[:-2], 0.5, 0.5])  # the last group has no spread
LONG, SHORT = [1] * 8, [1, 2]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_rejected_by_the_papers_formula(name: str) -> None:
    settings, _ = SETTINGS[name]
    with pytest.raises(AssertionError):
        assert_the_papers_formula(name, CASE, **settings)


def assert_gfpo(selector: Selector) -> None:
    """Two of four: most reward a token; among rollouts without a reward the order decides."""
    mixed = group("q", [1.0, 0.0, 1.0, 0.0], [LONG, SHORT, [*SHORT, 3], SHORT])
    assert selector.choose(mixed, [0.0] * 4) == [0, 2]


def assert_cppo(selector: Selector) -> None:
    """Two of four: the largest advantages of either sign."""
    mixed = group("q", [1.0, 1.0, 0.0, 0.5], [SHORT] * 4)
    assert selector.choose(mixed, [0.2, -0.1, -0.9, 0.8]) == [2, 3]


CHECKS: Mapping[str, tuple[Callable[[Selector], None], Selector]] = {
    "gfpo": (assert_gfpo, Gfpo(keep=2, by="reward_per_token")),
    "cppo": (assert_cppo, Cppo(share=0.5)),
}


@pytest.mark.parametrize("name", WRONG_CHOICES)
def test_a_wrong_selection_is_rejected_and_the_right_one_is_not(name: str) -> None:
    check, right = CHECKS[name]
    check(right)
    with pytest.raises(AssertionError):
        check(WRONG_CHOICES[name][0])


@pytest.mark.parametrize("system", METHODS, ids=lambda s: s.id)
def test_every_method_has_a_part_with_a_wrong_version(system: System) -> None:
    mutation = mutation_of(system)
    assert mutation is not None
    assert mutation.wrong


def test_a_running_system_has_a_wrong_version_of_its_own_or_nothing_that_could_be_wrong() -> None:
    running = [s for s in all_systems().values() if s.runs]
    assert {s.id for s in running if own_mutation(s) is None} == set(WITHOUT)


def test_no_part_has_two_wrong_versions_and_the_page_is_up_to_date() -> None:
    assert len({m.part for m in all_mutations().values()}) == len(all_mutations())
    assert PAGE.read_text(encoding="utf-8") == page()
