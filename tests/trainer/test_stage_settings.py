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
                "stages.0.algorithm.reference.update: reset, but dapo has no reference policy; give a regularize.kl above 0, "
                "or leave it out",
                "stages.1.algorithm.reference.reset_optimizer: grpo has no reference that is reset; give "
                "reference.update=reset and a regularize.kl above 0, or leave it out",
            ],
        ),
        (
            [
                "stages.0.algorithm={name: dapo, reference: {update: ema}}",
                "stages.1.algorithm={name: dapo, reference: {reset_optimizer: true}}",
            ],
            [
                "stages.0.algorithm.reference.update: ema, but dapo has no reference policy; give a regularize.kl above 0, "
                "or leave it out",
                "stages.1.algorithm.reference.reset_optimizer: dapo has no reference that is reset; give "
                "reference.update=reset and a regularize.kl above 0, or leave it out",
            ],
        ),
        (
            ["stages.1.prompts_per_step=4", "stages.1.update.updates_per_batch=8"],
            [
                "stages.1.update.updates_per_batch: 8, but a step has 4 groups, one for each of its prompts: use at most 4, "
                "or a larger prompts_per_step"
            ],
        ),
        (
            [
                "rollout.group_size=8",
                "stages.0.algorithm={name: rloo, select: {name: pods, keep: 1}}",
                "stages.1.algorithm={name: gvpo, select: [{name: gfpo, keep: 4}, {name: cppo, share: 0.25}]}",
            ],
            [
                "stages.0.algorithm.select: it leaves 1 of a group's 8 rollouts, but rloo compares the rollouts of a group: "
                "let it leave at least 2",
                "stages.1.algorithm.select: it leaves 1 of a group's 8 rollouts, but gvpo compares the rollouts of a group: "
                "let it leave at least 2",
            ],
        ),
        (
            ["rollout.group_size=1", "algorithm={name: gvpo, advantage: reward}"],
            [
                f"stages.{stage}.rollout.group_size: 1, but gvpo compares the rollouts of a group: use at least 2"
                for stage in (0, 1)
            ],
        ),
        (
            [
                "stages.0.algorithm={name: rec, objective: {regularizer: k2}}",
                "stages.1.algorithm={name: rec, objective: {coefficient: 0.5}}",
            ],
            [
                "stages.0.algorithm.objective: regularizer: k2 needs a coefficient; give one, such as coefficient: 0.1",
                "stages.1.algorithm.objective: coefficient: 0.5 is that of a regularizer, and there is none: give "
                "regularizer: k2 or forward_kl, or leave it out",
            ],
        ),
        (
            [
                "rollout.group_size=8",
                "stages.0.algorithm={name: grpo, select: {name: gfpo, keep: 8}}",
                "stages.1.algorithm={name: grpo, select: {name: pods, keep: 12}, replay: fifo}",
            ],
            [
                f"stages.{stage}.algorithm.select: {rule} keeps all of a group's {size} rollouts, and has no effect; let it keep "
                "fewer, or leave it out"
                for stage, rule, size in ((0, "gfpo", 8), (1, "pods", 12))
            ],
        ),
        (
            ["stages.1.prompts=tracked"],
            [
                "stages.1.prompts: tracked weighs prompts by what the advantage step minus_tracked notes, which no stage up to "
                "this one has, so that all would weigh the same; add that step, or use other prompts"
            ],
        ),
        (
            ["algorithm=sft", "permute_rewards=true"],
            [
                "permute_rewards: true has no effect, as every stage learns gold answers; leave it out"
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


@pytest.mark.parametrize(
    "override",
    [
        "algorithm={name: dapo, regularize: {kl: {from: 0.0, to: 0.1}}, reference: {update: ema}}",
        "algorithm={name: gvpo, objective: {reference: initial}, reference: {update: ema}}",
        "algorithm={name: raft, select: [positives, {name: pods, keep: 1}]}",
        "algorithm={name: grpo, select: {name: cppo, share: 0.1}}",
        "algorithm={name: grpo, select: {name: pods, keep: 8}, replay: fifo}",
        "algorithm={name: rec, objective: {regularizer: k2, coefficient: {from: 0.5, to: 0.0}}}",
    ],
)
def test_settings_that_have_an_effect_are_accepted(tmp_path: Path, override: str) -> None:
    with pytest.raises(AssertionError, match="a task was loaded"):  # nothing is refused
        resolve_stages(config(tmp_path, override))


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


def test_tracked_prompts_may_use_what_an_earlier_stage_has_noted(tmp_path: Path) -> None:
    tracked = "stages.0.algorithm={name: grpo, advantage: [minus_tracked]}"
    with pytest.raises(AssertionError, match="a task was loaded"):  # nothing is refused
        resolve_stages(config(tmp_path, tracked, "stages.1.prompts=tracked"))
