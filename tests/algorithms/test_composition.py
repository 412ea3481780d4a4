"""Parts of several papers in one algorithm, chosen by name in YAML."""

from __future__ import annotations

import yaml

from tests.objectives.reference import random_case
from tests.objectives.rows import step
from vlrft.algorithms import find_algorithm
from vlrft.objectives.dynamic_clip import DynamicClip

TEXT = """
name: grpo
advantage: [{step: mixed_deviation}]
objective: dynamic_clip
regularize: {kl: 0.0}
"""


def test_one_papers_advantage_goes_with_anothers_loss() -> None:
    choice = yaml.safe_load(TEXT)
    assert find_algorithm(choice).objective == DynamicClip()
    case = random_case(5, sizes=[4, 4], levels=(0.0, 1.0))
    name = choice.pop("name")
    ours, gradient = step(name, case, **choice)
    advantages = step("mapo", case)[0].advantages
    theirs, other = step("dcpo_clip", case, advantages=advantages)
    assert (ours.loss == theirs.loss).all()
    assert (gradient == other).all()
