"""The whole loop under algorithms with a baseline, a moving reference, selection or replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.small_runs import assert_same_run, killed_and_resumed, lines
from vlrft.config import Config
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import advice, resolve_stages
from vlrft.trainer.train import train


def test_a_group_of_one_is_refused_by_algorithms_that_compare_rollouts(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"stages.1.rollout.group_size: 1, but gpg compares"):
        train(config("rollout.group_size=1"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_rewards_of_greedy_answers_are_the_baseline_where_an_estimator_needs_them(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy: list[float] = []

    def record(stage: Stage, groups: Sequence[Group], progress: float) -> list[float]:
        rewards = greedy_rewards(stage, groups, progress)
        greedy.extend(rewards)
        return rewards

    greedy_rewards = Stage.greedy_rewards
    monkeypatch.setattr(Stage, "greedy_rewards", record)
    remax = "stages.1.algorithm={name: grpo, advantage: remax, regularize: {kl: 0}}"
    alone = "stages.1.rollout.group_size=1"
    run = train(config(remax, alone, "log.groups_per_step=9"), out=tmp_path / "run").folder
    rows = [r for r in lines(run / "rollouts.jsonl") if r["stage"] == "grpo"]
    assert [r["reward"] - r["advantage"] for r in rows] == pytest.approx(greedy)
    assert len(greedy) == 12
    assert any(r["advantage"] for r in rows)


@pytest.mark.parametrize(
    ("rule", "dtype"),
    [
        ("{update: ema, decay: 0.5}", "float32"),
        ("{update: ema, decay: 0.5}", "bfloat16"),
        ("{update: reset, every: 2, reset_optimizer: true}", "float32"),
    ],
)
def test_a_moving_reference_moves_and_resumes_bit_for_bit(
    config: Callable[..., Config],
    whole: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    dtype: str,
) -> None:
    fixed = (f"policy.dtype={dtype}", "stages.1.update={lr: 1.0e-2}")
    moving = ("algorithm={name: grpo, reference: " + rule + "}", *fixed)
    still = whole("algorithm={name: grpo}", *fixed)
    rows = [
        [r["kl/reference"] for r in lines(run / "metrics.jsonl") if "kl/reference" in r]
        for run in (whole(*moving), still)
    ]
    assert rows[0][0] == rows[1][0]
    assert rows[0][-1] != rows[1][-1]

    resumed = killed_and_resumed(config(*moving), tmp_path / "killed", 5, monkeypatch)
    assert_same_run(whole(*moving), resumed)
    references = [stored_reference(run) for run in (whole(*moving), resumed)]
    assert references[0].keys() == references[1].keys()
    assert all(torch.equal(t, references[1][name]) for name, t in references[0].items())
    assert {t.dtype for t in references[0].values()} == {torch.float32}


def stored_reference(run: Path) -> dict[str, torch.Tensor]:
    """The reference's weights in the last checkpoint."""
    state = load_file(run / "checkpoints" / "last" / "trainer" / "state.safetensors")
    return {name: tensor for name, tensor in state.items() if name.startswith("reference/")}


def test_a_moving_reference_needs_its_own_weights(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    wanted = config("algorithm={name: grpo, reference: {update: ema}}", "policy.lora={rank: 2}")
    with pytest.raises(ConfigError, match=r"reference.update: ema, but with LoRA adapters"):
        train(wanted, out=tmp_path / "run")


@pytest.mark.parametrize(
    "method",
    [
        "{name: gpg, select: {name: cppo, share: 0.5}, inject: {name: gold, when: always}}",
        "{name: grpo, select: {name: pods, keep: 2}, advantage: [smoothed]}",
        "{name: gvpo, replay: {name: fifo, add: 2}}",
        "{name: grpo, keep: {name: dynamic_sampling, max_attempts: 1}, replay: {name: fifo, add: 1}, "
        "advantage: [unlikely, centre, scale, over_entropy]}",
        "{name: dpo}",
        "{name: gpg, advantage: remax, regularize: {entropy: 0.01}, correction: {level: token}}",
    ],
)
def test_selection_and_replay_train_and_resume_bit_for_bit(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    train_size = "task.options.train=6"  # prompts are drawn again, and with them stored rollouts
    wanted = config(f"algorithm={method}", "stages.1.prompts=greso", train_size)
    whole = train(wanted, out=tmp_path / "whole").folder
    rows = [r for r in lines(whole / "metrics.jsonl") if r["stage"] != "sft"]
    assert len(rows) == 3

    assert_same_run(whole, killed_and_resumed(wanted, tmp_path / "killed", 6, monkeypatch))


def test_replayed_rollouts_are_logged_as_such(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    method = "algorithm={name: grpo, replay: {name: fifo, add: 2}}"
    run = train(config(method, "task.options.train=4"), out=tmp_path / "run").folder
    origins = {r["origin"] for r in lines(run / "rollouts.jsonl") if r["stage"] == "grpo"}
    assert origins == {"fresh", "replay"}


def test_a_step_without_a_kept_group_is_no_error(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    (tmp_path / "flat.py").write_text("def flat(completion, sample):\n    return 0.5\n")
    flat = f"task.rewards={{{tmp_path / 'flat.py'}:flat: 1.0}}"
    run = train(
        config("algorithm={name: grpo, keep: dynamic_sampling}", flat), out=tmp_path / "run"
    ).folder
    last = lines(run / "metrics.jsonl")[-1]
    assert (last["loss"], last["groups/valid_share"]) == (0.0, 0.0)


def test_gvpo_advises_against_settings_that_reduce_it_to_another_algorithm(
    config: Callable[..., Config],
) -> None:
    quiet = config("algorithm=gvpo", "update.updates_per_batch=2")
    assert advice(resolve_stages(quiet)) == []
    odd = config("algorithm=gvpo", "rollout.top_p=0.9")
    first, second = advice(resolve_stages(odd))
    assert first.startswith("gvpo: gvpo with reference: old and one update per batch is REINFORCE")
    assert "rollout.top_p" in second
    initial = config("algorithm={name: gvpo, objective: {reference: initial}}")
    assert advice(resolve_stages(initial)) == []
