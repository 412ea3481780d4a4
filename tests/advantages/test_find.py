"""Estimators by name, from files, and from steps in a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.advantages.steps import step_of
from vlrft.advantages import ESTIMATORS, STEPS, find_estimator
from vlrft.advantages.estimators import load_estimators
from vlrft.algorithms import find_algorithm
from vlrft.schema.errors import ConfigError

OWN = """
from dataclasses import replace
from vlrft.advantages import Estimator
from vlrft.config import strict

def halve(inputs):
    return replace(inputs, values=inputs.values / 2)

@strict
class Power:
    exponent: int = 2
    def __call__(self, inputs):
        return replace(inputs, values=inputs.values ** self.exponent)

class Plain:
    pass

mine = Estimator(name="mine", doc="Half.", steps=(halve,))
"""


@pytest.fixture
def own_file(tmp_path: Path) -> str:
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
        (("centre", {"step": "whiten", "over": "tokens", "key": None}), "reinforce_pp"),
    ],
)
def test_a_list_of_steps_equals_the_estimator_with_these_steps(steps: Any, name: str) -> None:
    assert find_estimator(steps).steps == ESTIMATORS[name].steps


def test_a_list_of_steps_is_named_after_them() -> None:
    assert find_estimator(["combine", {"step": "centre"}]).name == "combine + centre"


def test_from_a_file(own_file: str) -> None:
    assert values(f"{own_file}:mine") == [0.5, 0.0, 0.25]
    assert values([f"{own_file}:halve", {"step": f"{own_file}:Power", "exponent": 3}]) == [
        0.125,
        0,
        0.015625,
    ]


def test_all_mistakes_are_reported_at_once_with_near_names() -> None:
    lines = mistakes(
        [
            {"step": "center"},
            {"step": "centre", "kye": "sample"},
            {"key": "sample"},
            {"step": "scale", "by": "goup"},
            {"step": "overlong", "buffer": 0, "penalty": -1},
            {"step": "combine"},
        ]
    )
    assert [line.split(": ")[0] for line in lines] == [
        "algorithm.advantage.0.step",
        "algorithm.advantage.1.kye",
        "algorithm.advantage.2",
        "algorithm.advantage.3.by",
        "algorithm.advantage.4.buffer",
        "algorithm.advantage.4.penalty",
    ]
    assert "did you mean centre?" in lines[0]
    assert "did you mean key?" in lines[1]
    assert "'goup'" in lines[3]
    (line,) = mistakes([{"step": "xyz"}])
    assert line.endswith(f"unknown step 'xyz'; known: {', '.join(STEPS)}")


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
def test_a_choice_that_is_no_estimator_is_refused(choice: Any, line: str) -> None:
    assert mistakes(choice)[0].startswith(line)


def test_files_without_an_estimator_are_refused(own_file: str) -> None:
    assert "is a function, not an Estimator" in mistakes(f"{own_file}:halve")[0]
    assert "neither a function" in mistakes([f"{own_file}:Plain"])[0]
    assert "has no 'halv'; did you mean halve?" in mistakes([f"{own_file}:halv"])[0]
    assert mistakes([{"step": f"{own_file}:halve", "by": 2}])[0].startswith(
        "algorithm.advantage.0.by: unknown key"
    )
    assert mistakes([{"step": f"{own_file}:Power", "exponnt": 2}]) == [
        "algorithm.advantage.0.exponnt: unknown key; did you mean exponent?"
    ]


def test_an_algorithm_takes_a_list_of_steps() -> None:
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


def test_every_family_is_found() -> None:
    steps, named = load_estimators()
    assert {"combine", "per_component", "centre", "scale", "leave_one_out", "minus_greedy"} <= set(
        steps
    )
    assert set(named) == set(ESTIMATORS)
