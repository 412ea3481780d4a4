"""Keys of a config that have no effect are refused, in one line that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config.load import load_config
from vlrft.schema.errors import ConfigError

PLAIN = """
task: digits
policy: {build: {family: qwen2_vl}}
stages: [{algorithm: sft, steps: 5}, {steps: 7}]
"""


def mistakes(tmp_path: Path, *overrides: str) -> list[str]:
    path = tmp_path / "c.yaml"
    path.write_text(PLAIN)
    try:
        load_config(path, overrides)
    except ConfigError as e:
        return [line.removeprefix(f"{path}: ") for line in e.mistakes]
    return []


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["update.min_lr_ratio=0.1"],
            "update.min_lr_ratio: 0.1 has no effect with schedule: constant; leave it out, or use schedule: linear or "
            "cosine",
        ),
        (
            ["stages.0.update.schedule=linear", "stages.1.update.min_lr_ratio=0.1"],
            "stages.1.update.min_lr_ratio: 0.1 has no effect with schedule: constant; leave it out, or use schedule: linear or "
            "cosine",
        ),
        (
            ["task.examples.seed=3"],
            "task.examples.seed: 3 has no effect with count: 0; leave it out, or give a count",
        ),
        (
            ["stages.1.task.examples.split=test"],
            "stages.1.task.examples.split: 'test' has no effect with count: 0; leave it out, or give a count",
        ),
        (
            ["task.env.invalid_penalty=0.1"],
            "task.env.invalid_penalty: 0.1 has no effect on task digits, which has no environment; leave it out",
        ),
        (
            ["stages.1.task.env.on_error=keep"],
            "stages.1.task.env.on_error: 'keep' has no effect on task digits, which has no environment; leave it out",
        ),
        (
            ["policy.trust_remote_code=true"],
            "policy: trust_remote_code: True has no effect with build, which loads nothing; leave it out, or use model",
        ),
    ],
)
def test_a_key_without_effect_is_refused(tmp_path: Path, overrides: list[str], line: str) -> None:
    assert mistakes(tmp_path, *overrides) == [line]


@pytest.mark.parametrize(
    "overrides",
    [
        ["update.min_lr_ratio=0.1", "stages.1.update.schedule=cosine"],
        ["task.examples={count: 2, seed: 3}", "stages.0.task.examples.count=0"],
        ["task=gridworld", "task.env.max_turns=9", "stages.0.task.name=digits"],
        ["task.env.max_turns=50"],
    ],
)
def test_a_key_with_an_effect_on_one_stage_is_accepted(
    tmp_path: Path, overrides: list[str]
) -> None:
    assert not mistakes(tmp_path, *overrides)
