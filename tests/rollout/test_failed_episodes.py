"""Whole steps in which some or all episodes fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import resolve_stages
from vlrft.trainer.train import train

TASK = """
from vlrft.schema import Message, Observation, Sample, Step, Task


class Fragile:
    '''Expects "yes"; raises where FAILS is true.'''

    def __init__(self, sample):
        self.turn = 0

    def start(self):
        return Observation(messages=(Message(role="user", content=("yes?",)),))

    def step(self, text):
        if text != "yes" and (FAILS):
            raise OSError("it broke")
        self.turn += 1
        seen = None if text == "yes" or self.turn == 2 else self.start()
        return Step(observation=seen, reward=len(text) / 10, scores={"heard": float(text == "yes")})

    def close(self):
        pass


task = Task(
    name="fragile",
    doc="",
    options=dict,
    splits=("train", "test"),
    load=lambda split, options: [Sample(id=f"s{k}", messages=()) for k in range(8)],
    rewards={},
    graders={"strict": ("heard",)},
    gold=lambda sample: ["yes"],
    env=Fragile,
    env_scores=("heard",),
)
"""

RUN = """
policy:
  build: {family: qwen2, hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32}
rollout: {group_size: 4, max_tokens: 6}
update: {lr: 1.0e-3}
stages: [{steps: 2, prompts_per_step: 4}]
eval: {limit: 2}
"""

Make = Callable[..., Config]


@pytest.fixture
def config(tmp_path: Path) -> Make:
    def make(fails: str, *overrides: str) -> Config:
        (tmp_path / "fragile.py").write_text(TASK.replace("FAILS)", f"{fails})"))
        path = tmp_path / "run.yaml"
        path.write_text(RUN)
        return load_config(str(path), (f"task.name={tmp_path / 'fragile.py'}", *overrides))

    return make


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("on_error", ["drop", "drop_group"])
def test_steps_without_an_episode_left_are_no_error(
    config: Make, tmp_path: Path, on_error: str
) -> None:
    run = train(config("True", f"task.env.on_error={on_error}"), out=tmp_path / "run").folder
    for row in metrics(run):
        assert (row["loss"], row["groups/valid_share"], row["env/errors"]) == (0.0, 0.0, 16.0 * 20)
        assert "reward/mean" not in row


def test_dropped_episodes_are_counted(config: Make, tmp_path: Path) -> None:
    fails = "len(text) % 2"
    algorithm = "algorithm={name: grpo, regularize: {kl: 0}}"
    kept, dropped = (
        metrics(
            train(config(fails, f"task.env.on_error={rule}", algorithm), out=tmp_path / rule).folder
        )
        for rule in ("keep", "drop")
    )
    assert kept[0]["env/errors"] == dropped[0]["env/errors"] > 0


@pytest.mark.parametrize("algorithm", ["gvpo", "{name: grpo, advantage: rloo}"])
def test_groups_with_too_few_rollouts_left_are_dropped(
    config: Make, tmp_path: Path, algorithm: str
) -> None:
    made = config(
        "len(text) % 2", "task.env.on_error=drop", f"algorithm={algorithm}", "rollout.group_size=2"
    )
    run = train(made, out=tmp_path / "run").folder
    assert all(row["env/errors"] > 0 for row in metrics(run))


def test_greedy_episodes_that_fail_are_reported(
    config: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm = "algorithm={name: grpo, advantage: remax, regularize: {kl: 0}}"
    made = config("True", "task.env.on_error=keep", algorithm, "eval.limit=1", "stages.0.steps=1")
    train(made, out=tmp_path / "run")
    assert capsys.readouterr().err.count("it broke") == 2 + 4 * (4 + 1)  # two evaluations


def test_replay_with_an_environment_is_refused_at_the_start(config: Make) -> None:
    made = config("False", "algorithm={name: grpo, replay: {name: fifo}}")
    with pytest.raises(ConfigError, match="replay: rollouts of an environment cannot be replayed"):
        resolve_stages(made)
