"""Estimators by name, from files, and from steps in a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, find_estimator
from vlrft.advantages.estimators import load_families
from vlrft.algorithms import find_algorithm
from vlrft.schema.errors import ConfigError

OWN = """
from dataclasses import replace
from vlrft.advantages import Estimator
from vlrft.config import strict

def halve(plays):
    return replace(plays, values=plays.values / 2)

@strict
class Power:
    exponent: int = 2
    def __call__(self, plays):
        return replace(plays, values=plays.values ** self.exponent)

class Plain:
    pass

mine = Estimator(name="mine", doc="Half.", steps=(halve,))
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return str(path)


def mistakes(choice: Any) -> list[str]:
    with pytest.raises(ConfigError) as e:
        find_estimator(choice, "algorithm.advantage")
    return e.value.mistakes


def values(choice: Any) -> list[float]:
    return [float(v) for v in find_estimator(choice)(step_of([1.0, 0.0, 0.5], [0, 0, 0])).values]


def test_by_name() -> None:
    assert find_estimator("rloo") is ESTIMATORS["rloo"]


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ([{"step": "centre"}], "centred"),
        ([{"step": "centre", "key": "sample"}, {"step": "scale", "by": "group"}], "standardised"),
        (["centre", {"step": "scale", "by": "step"}], "batch_standardised"),
        (["leave_one_out"], "rloo"),
        (("centre", "whiten"), "reinforce_pp"),
    ],
)
def test_the_steps_of_a_named_one_are_the_named_one(steps: Any, name: str) -> None:
    assert find_estimator(steps).steps == ESTIMATORS[name].steps


def test_a_list_of_steps_is_named_after_them() -> None:
    assert find_estimator(["combine", {"step": "centre"}]).name == "combine + centre"


def test_from_a_file(own: str) -> None:
    assert values(f"{own}:mine") == [0.5, 0.0, 0.25]
    assert values([f"{own}:halve", {"step": f"{own}:Power", "exponent": 3}]) == [0.125, 0, 0.015625]


def test_all_mistakes_at_once_with_what_is_near() -> None:
    found = mistakes(
        [
            {"step": "center"},
            {"step": "centre", "kye": "sample"},
            {"key": "sample"},
            {"step": "scale", "by": "goup"},
            {"step": "overlong", "buffer": 0, "penalty": -1},
            {"step": "combine"},
        ]
    )
    assert [line.split(": ")[0] for line in found] == [
        "algorithm.advantage.0.step",
        "algorithm.advantage.1.kye",
        "algorithm.advantage.2",
        "algorithm.advantage.3.by",
        "algorithm.advantage.4.buffer",
        "algorithm.advantage.4.penalty",
    ]
    assert "did you mean centre?" in found[0]
    assert "did you mean key?" in found[1]
    assert "'goup'" in found[3]


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        ("centerd", "algorithm.advantage: unknown estimator 'centerd'; did you mean centred?"),
        ([], "algorithm.advantage: expected a name or a list of steps"),
        ({"step": "centre"}, "algorithm.advantage: expected a name or a list of steps"),
        (3, "algorithm.advantage: expected a name or a list of steps"),
        ([3], "algorithm.advantage.0: expected {step: NAME, …}"),
        ("./none.py:mine", "algorithm.advantage: none.py: no such file"),
        (["./none.py:mine"], "algorithm.advantage.0.step: none.py: no such file"),
    ],
)
def test_what_cannot_be_an_estimator(choice: Any, line: str) -> None:
    assert mistakes(choice)[0].startswith(line)


def test_files_that_hold_something_else(own: str) -> None:
    assert "is a function, not an Estimator" in mistakes(f"{own}:halve")[0]
    assert "neither a function" in mistakes([f"{own}:Plain"])[0]
    assert "has no 'half'; did you mean halve?" in mistakes([f"{own}:half"])[0]
    assert mistakes([{"step": f"{own}:halve", "by": 2}])[0].startswith(
        "algorithm.advantage.0.by: unknown key"
    )
    assert mistakes([{"step": f"{own}:Power", "exponnt": 2}]) == [
        "algorithm.advantage.0.exponnt: unknown key; did you mean exponent?"
    ]


def test_a_method_takes_a_list_of_steps() -> None:
    steps: list[Any] = [{"step": "overlong", "buffer": 4}, {"step": "centre"}]
    algorithm = find_algorithm({"name": "gpg", "advantage": steps})
    assert algorithm.estimator == find_estimator(steps)
    assert algorithm.describe()["advantage"].startswith("overlong + centre: ")
    with pytest.raises(ConfigError) as e:
        find_algorithm({"name": "gpg", "advantage": ["center"], "reduction": "tokn"})
    assert [m.split(":")[0] for m in e.value.mistakes] == [
        "algorithm.advantage.0.step",
        "algorithm.reduction",
    ]


def test_every_family_is_found_once() -> None:
    steps, named = load_families()
    assert {"combine", "per_component", "centre", "scale", "leave_one_out", "minus_greedy"} <= set(
        steps
    )
    assert set(named) == set(ESTIMATORS)
