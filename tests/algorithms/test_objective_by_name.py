"""`algorithm.objective` names any objective, with its own settings; without a name it changes those of the present one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.objectives.reference import random_case
from tests.objectives.rows import step
from vlrft.algorithms import ALGORITHMS, find_algorithm
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.find import OBJECTIVES
from vlrft.objectives.gmpo import Gmpo
from vlrft.objectives.gspo import Gspo
from vlrft.schema.errors import ConfigError


def choose(**changes: Any) -> Any:
    return find_algorithm({"name": "dapo", **changes})


@pytest.mark.parametrize("value", ["gmpo", {"name": "gmpo"}])
def test_an_objective_is_chosen_by_name_with_its_own_defaults(value: Any) -> None:
    algorithm = choose(objective=value)
    assert algorithm.objective == Gmpo()
    assert (algorithm.reduction, algorithm.advantage) == ("token", ALGORITHMS["dapo"].advantage)


def test_settings_beside_the_name_are_those_of_the_named_objective() -> None:
    assert choose(objective={"name": "gmpo", "clip_high": 0.1}).objective == Gmpo(clip_high=0.1)
    clipped = choose(objective={"name": "clipped_ratio", "clip_low": 0.1}).objective
    assert clipped == ClippedRatio(clip_low=0.1, clip_high=0.2)  # not DAPO's 0.28


def test_without_a_name_the_present_objective_is_changed() -> None:
    assert choose(objective={"clip_low": 0.1}).objective == ClippedRatio(
        clip_low=0.1, clip_high=0.28
    )


def test_every_algorithms_objective_has_a_name() -> None:
    assert {type(a.objective) for a in ALGORITHMS.values()} <= set(OBJECTIVES.values())


def test_an_algorithm_with_anothers_objective_is_that_other_algorithm_bit_for_bit() -> None:
    case = random_case(1, sizes=[3, 4])
    theirs = step("grpo", case, objective="gspo", regularize={"kl": 0.0})
    ours = step("gspo", case)
    assert (theirs[0].loss == ours[0].loss).all()
    assert (theirs[1] == ours[1]).all()


def test_a_setting_of_a_named_objective_may_be_a_schedule_and_the_replaced_ones_schedule_ends() -> (
    None
):
    ramp = {"from": 0.3, "to": 0.1}
    algorithm = choose(objective={"name": "gmpo", "clip_high": ramp})
    assert algorithm.at(1.0).objective == Gmpo(clip_high=0.1)
    before = find_algorithm({"name": "dapo", "objective": {"clip_low": ramp}})
    assert set(before.schedules) == {"objective.clip_low"}
    from vlrft.algorithms import override

    assert override(before, {"objective": "gspo"}).at(0.5).objective == Gspo()


def test_an_objective_in_a_file_is_a_class_or_an_instance(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from vlrft.objectives.gmpo import Gmpo\nmild = Gmpo(clip_high=0.1)\n"
        "def careless():\n    pass\n"
    )
    at = f"{tmp_path}/mine.py"
    assert choose(objective={"name": f"{at}:Gmpo", "clip_low": 0.2}).objective == Gmpo(clip_low=0.2)
    assert choose(objective=f"{at}:mild").objective == Gmpo(clip_high=0.1)
    assert choose(objective={"name": f"{at}:mild", "clip_low": 0.2}).objective == Gmpo(
        clip_high=0.1, clip_low=0.2
    )
    with pytest.raises(ConfigError, match="careless is not an objective"):
        choose(objective=f"{at}:careless")
    with pytest.raises(ConfigError, match="clip: unknown key"):
        choose(objective={"name": f"{at}:careless", "clip": 1})


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("gmppo", "algorithm.objective.name: unknown objective 'gmppo'; did you mean gmpo"),
        ({"name": "gmpo", "clip": 1}, "algorithm.objective.clip: "),
        ({"name": "gmpo", "clip_high": {"from": 0.1, "to": -1}}, "algorithm.objective.clip_high: "),
        (3, "algorithm.objective: expected a mapping"),
    ],
)
def test_mistakes_are_reported_under_their_key(value: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(objective=value)
    assert any(line in mistake for mistake in caught.value.mistakes), caught.value.mistakes
