"""The stages of a config: every mistake in what they choose, before a task or a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed.device import find_device, pick_device
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage_settings import count_steps, resolve_stages

PLAIN = """
task: {name: digits, options: {train: 20, test: 5}}
policy: {build: {family: qwen2_vl}}
stages: [{steps: 1}, {steps: 1}]
"""


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a task was loaded before all choices were checked")

    monkeypatch.setattr("vlrft.trainer.stage_settings.load_task", refuse)


def config(tmp_path: Path, *overrides: str) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(PLAIN)
    return load_config(path, overrides)


def test_more_epochs_than_there_are_numbers_for_steps_are_refused(tmp_path: Path) -> None:
    (stage, _) = config(tmp_path, "stages.0.steps=null", "stages.0.epochs=1e30").stages
    with pytest.raises(ConfigError, match=r"stages: gpg: 1e\+30 epochs are more than 2147483647"):
        count_steps(stage, samples=100)


def test_a_gpu_that_is_not_here_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"device: cuda, but PyTorch .*; use auto or cpu"):
        find_device("cuda")
    assert (find_device("auto"), find_device("cpu")) == ("cpu", "cpu")
    assert pick_device("cuda") == "cuda"  # to plan for


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            [
                "stages.0.algorithm={name: gpg, objective: {alpha_window: 0}}",
                "stages.1.algorithm={name: dapo, keep: {max_attempts: 0}}",
            ],
            [
                "stages.0.algorithm.objective.alpha_window: 0 is out of range; allowed: at least 1",
                "stages.1.algorithm.keep.max_attempts: 0 is out of range; allowed: at least 1",
            ],
        ),
        (
            ["algorithm={name: gpg, regularize: {kl: .inf}}"],
            ["algorithm.regularize.kl: inf is out of range; allowed: at least 0"],
        ),
        (
            ["stages.1.prompts={name: greso, rate: 2}", "stages.0.prompts=gresso"],
            [
                "stages.0.prompts: unknown name 'gresso'; did you mean greso? known: uniform, variance_aware, "
                "history, greso, tracked, cures",
                "stages.1.prompts.rate: 2 is out of range; allowed: from 0 to 1",
            ],
        ),
        (
            [
                "rollout.max_tokens=8",
                "stages.1.algorithm={name: dapo, advantage: [{step: overlong, buffer: 9}, centre]}",
            ],
            [
                "stages.1.rollout.max_tokens: 8, but dapo penalises the last 9 tokens of a completion: use at least 9, "
                "or a smaller buffer"
            ],
        ),
        (
            [
                "stages.0.algorithm={name: dcpo, inject: gold}",
                "stages.1.algorithm={name: grpo, advantage: [minus_tracked], replay: fifo}",
            ],
            [
                f"stages.{stage}.algorithm.{part}: a step of algorithm.advantage notes the rewards of each visit of a "
                f"prompt, and these would count others than the policy's own; remove {part}, or that step"
                for stage, part in enumerate(("inject", "replay"))
            ],
        ),
        (
            [
                "stages.0.algorithm={name: dapo, reference: {update: reset, reset_optimizer: true}}",
                "stages.1.algorithm={name: grpo, reference: {update: ema, reset_optimizer: true}}",
            ],
            [
                f"stages.{stage}.algorithm.reference.reset_optimizer: {name} has no reference that is reset; give "
                "reference.update=reset and a regularize.kl above 0, or leave it out"
                for stage, name in enumerate(("dapo", "grpo"))
            ],
        ),
    ],
)
def test_mistakes_of_all_stages_come_at_once_before_any_data(
    tmp_path: Path, overrides: list[str], lines: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_stages(config(tmp_path, *overrides))
    assert caught.value.mistakes == lines


@pytest.mark.parametrize("rewards", ["{}", "{format: 0.0}"])
def test_a_run_without_a_reward_is_refused_before_any_data_unless_it_only_imitates(
    tmp_path: Path, rewards: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_stages(config(tmp_path, f"task.rewards={rewards}"))
    assert [line.partition(",")[0] for line in caught.value.mistakes] == [
        f"stages.{stage}.task.rewards: no reward with a weight is left" for stage in (0, 1)
    ]
    with pytest.raises(AssertionError, match="a task was loaded"):  # nothing is refused
        resolve_stages(config(tmp_path, f"task.rewards={rewards}", "algorithm=sft"))
