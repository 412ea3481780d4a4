"""The whole loop on a very small policy: files, resume, controls, and numbers that are not finite."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.policy.policy import Policy
from vlrft.reporting.run_folder.removal import read_run_folder
from vlrft.reporting.run_log import RunLog
from vlrft.rollout.permute_rewards import permute_rewards
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError, StoredFileError, TrainingStopped
from vlrft.testing.small_policies import group
from vlrft.trainer.stage import Stage
from vlrft.trainer.stage_settings import advice, resolve_stages
from vlrft.trainer.train import train
from vlrft.trainer.update import update

TINY = """
task: {name: digits, options: {subtasks: [classify, count]}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 4, max_tokens: 10}
update: {lr: 1.0e-3}
stages:
  - {algorithm: sft, steps: 3, prompts_per_step: 8}
  - {steps: 3, prompts_per_step: 4}
eval: {limit: 6}
save: {every: 1, keep_last: 10}
log: {groups_per_step: 2}
"""


EVEN = """
def even(completion, sample):
    return float(len(completion) % 2 == 0)
"""


class Killed(BaseException):
    """Simulates a kill: no code catches it."""


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Config]:
    def make(*overrides: str) -> Config:
        path = tmp_path / "tiny.yaml"
        path.write_text(TINY)
        (tmp_path / "mine.py").write_text(EVEN)
        rewards = f"task.rewards={{{tmp_path / 'mine.py'}:even: 1.0}}"
        return load_config(str(path), (rewards, *overrides))

    return make


def lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a jsonl file without values that differ from run to run."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    unstable = ("time/", "speed/", "memory/")
    return [{k: v for k, v in row.items() if not k.startswith(unstable)} for row in rows]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / "last" / "model.safetensors")


def assert_same_run(one: Path, other: Path) -> None:
    for name in ("metrics.jsonl", "rollouts.jsonl", "evals.jsonl", "values.jsonl"):
        assert lines(one / name) == lines(other / name), name
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[k], b[k]) for k in a)


def killed_and_resumed(config: Config, out: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run, killed before it logs step `at`, then resumed to its end."""
    real = RunLog.step

    def kill(self: RunLog, stage: str, step: int, *rest: Any) -> None:
        if step == at:
            raise Killed
        real(self, stage, step, *rest)

    monkeypatch.setattr(RunLog, "step", kill)
    with pytest.raises(Killed):
        train(config, out=out)
    monkeypatch.setattr(RunLog, "step", real)
    return train(config, out=out, resume=True).folder


def test_a_run_leaves_its_files(config: Callable[..., Config], tmp_path: Path) -> None:
    run = train(config(), out=tmp_path / "run").folder
    summary = json.loads((run / "summary.json").read_text())
    assert [(e["stage"], e["step"]) for e in summary["evals"]] == [
        ("init", 0),
        ("sft", 3),
        ("gpg", 6),
    ]
    assert set(summary["evals"][0]["scores"]["classify"]) == {
        "correct",
        "n",
        "score",
        "ci",
        "ci_method",
    }
    assert (summary["task"], summary["algorithm"], summary["seed"]) == ("digits", "gpg", 0)
    metrics = lines(run / "metrics.jsonl")
    assert [m["step"] for m in metrics] == [1, 2, 3, 4, 5, 6]
    needed = (
        "loss alpha reward/mean groups/valid_share advantage/max ratio/mean entropy grad_norm lr"
    )
    assert set(needed.split()) <= metrics[-1].keys()
    assert metrics[-1]["sampler_gap/max"] < 1e-4
    assert "sampler_gap/max" not in metrics[0]  # demonstrations are not sampled
    assert (run / "report.html").stat().st_size > 5000
    assert (run / "checkpoints" / "last").resolve().name == "step_6"
    assert load_config(str(run / "config.yaml")) == config()
    assert read_run_folder(run).foreign == ()


@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize(("algorithm", "background"), [("gpg", False), ("grpo", True)])
def test_a_killed_and_resumed_run_is_bit_identical(
    config: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    algorithm: str,
    background: bool,
) -> None:
    """Also where the resumed run wrote its checkpoints while it trained."""
    settings = config(f"algorithm={algorithm}")
    whole = train(settings, out=tmp_path / "whole").folder
    log = RunLog.step

    def step(self: RunLog, stage: str, number: int, *rest: Any) -> None:
        log(self, stage, number, *rest)
        if number == at + 1:  # after the log of a step, before its checkpoint
            raise Killed

    settings = replace(settings, save=replace(settings.save, background=background))
    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "step", step)
        with pytest.raises(Killed):
            train(settings, out=tmp_path / "parts")
    train(settings, out=tmp_path / "parts", resume=True)
    assert_same_run(whole, tmp_path / "parts")


def test_another_seed_is_another_run(config: Callable[..., Config], tmp_path: Path) -> None:
    one = train(config(), out=tmp_path / "one").folder
    other = train(config("seed=1"), out=tmp_path / "other").folder
    assert lines(one / "metrics.jsonl") != lines(other / "metrics.jsonl")


def test_a_run_is_never_overwritten_unasked(config: Callable[..., Config], tmp_path: Path) -> None:
    run = train(config("stages=[{algorithm: sft, steps: 1}]"), out=tmp_path / "run").folder
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="--resume, --overwrite"):
        train(config(), out=run)
    assert (run / "metrics.jsonl").read_bytes() == before
    again = train(config("stages=[{algorithm: sft, steps: 2}]"), out=run, overwrite=True).folder
    assert len(lines(again / "metrics.jsonl")) == 2


def test_a_finished_run_that_is_resumed_has_its_last_link_mended_and_loses_nothing(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    one_step = config("stages=[{algorithm: sft, steps: 1}]")
    run = train(one_step, out=tmp_path / "run").folder
    last = run / "checkpoints" / "last"
    last.unlink()
    last.symlink_to("step_99")
    before = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "evals.jsonl")}
    train(one_step, out=run, resume=True)
    assert last.resolve().name == "step_1"
    (run / "checkpoints/step_1").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"has no checkpoint any more, and .* has 1 step"):
        train(one_step, out=run, resume=True)
    (tmp_path / "elsewhere").rename(run / "checkpoints/step_1")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"a": 1}\n')
    with pytest.raises(StoredFileError, match=r"metrics.jsonl, line 2: 'stage' is missing"):
        train(one_step, out=run, resume=True)
    (run / "metrics.jsonl").write_bytes(before["metrics.jsonl"])
    (run / "summary.json").write_text("{}")
    with pytest.raises(StoredFileError, match=r"summary.json: not as a run writes it; put it back"):
        train(one_step, out=run, resume=True)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_a_run_resumes_only_with_the_settings_that_it_began_with(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    run = train(config("stages=[{algorithm: sft, steps: 1}]"), out=tmp_path / "run").folder
    with pytest.raises(ConfigError, match="--resume: stages, seed differ"):
        train(config("stages=[{algorithm: sft, steps: 2}]", "seed=3"), out=run, resume=True)


def test_steps_that_are_not_finite_are_skipped_and_stop_the_run(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, save = tmp_path / "run", Policy.save

    def poisoned(engine: Any, *rest: Any) -> Any:
        if engine.policy.poison:
            engine.scorer = lambda *inputs: [
                part * torch.nan for part in engine.policy.scorer(*inputs)
            ]
        return update(engine, *rest)

    def save_and_poison(self: Policy, *rest: Any) -> dict[str, str]:
        stored = save(self, *rest)
        Policy.poison = True  # type: ignore[attr-defined]
        return stored

    monkeypatch.setattr(Policy, "poison", False, raising=False)
    monkeypatch.setattr(Policy, "save", save_and_poison)
    monkeypatch.setattr("vlrft.trainer.train.update", poisoned)
    with pytest.raises(TrainingStopped, match="3 steps in a row"):
        train(config("stages.0.steps=6", "save.every=1"), out=run)
    assert all(
        torch.isfinite(v).all()
        for v in load_file(run / "checkpoints" / "step_1" / "model.safetensors").values()
    )


@pytest.mark.parametrize(
    ("lr", "weight_decay", "step", "reason"),
    [
        (1e9, 0.0, 4, "log-probs are NaN or infinite, even on a short prompt"),
        (1e12, 1e30, 3, "weights are NaN or infinite after the optimiser step"),
    ],
)
def test_a_policy_that_diverges_is_not_saved_and_the_run_says_what_to_lower(
    config: Callable[..., Config],
    tmp_path: Path,
    lr: float,
    weight_decay: float,
    step: int,
    reason: str,
) -> None:
    run = tmp_path / "run"
    diverging = config(f"stages.1.update.lr={lr}", f"stages.1.update.weight_decay={weight_decay}")
    with pytest.raises(TrainingStopped, match=f"stops after step {step}: .*{reason}") as stopped:
        train(diverging, out=run)
    assert f"last good checkpoint: {run}/checkpoints/step_3; --resume" in str(stopped.value)
    assert f"lower update.lr ({lr:g})" in str(stopped.value)
    assert "of stage gpg" in str(stopped.value)
    assert (run / "checkpoints" / "last").resolve().name == "step_3"
    assert not (run / "checkpoints" / "step_4").exists()


def test_a_resumed_run_passes_over_a_checkpoint_of_a_policy_that_diverged(
    config: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As earlier versions wrote them: its hashes are right and its weights are finite."""
    whole = train(config(), out=tmp_path / "whole").folder
    run = tmp_path / "run"
    shutil.copytree(whole, run, symlinks=True)
    last = run / "checkpoints" / "step_6"
    file = last / "model.safetensors"
    save_file({k: v * 1e30 for k, v in load_file(file).items()}, file)
    manifest = json.loads((last / "manifest.json").read_text())
    manifest["files"]["model.safetensors"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (last / "manifest.json").write_text(json.dumps(manifest))
    train(config(), out=run, resume=True)
    assert "step_6 holds a policy whose log-probs are NaN or infinite" in capsys.readouterr().err
    assert_same_run(whole, run)


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

    def record(stage: Stage, groups: Sequence[Group]) -> list[float]:
        rewards = greedy_rewards(stage, groups)
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


def test_an_unwritable_folder_is_a_one_line_error(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        train(config(), out=tmp_path / "file" / "run")


def test_permuting_keeps_the_rewards_of_a_group_but_not_their_order() -> None:
    one = group("a", [0.0, 0.25, 0.5, 1.0])
    other = permute_rewards(one, seed=3)
    assert sorted(other.rewards) == sorted(one.rewards)
    assert other.rewards != one.rewards
    assert [r.rows for r in other.rollouts] == [r.rows for r in one.rollouts]


@pytest.mark.parametrize("rule", ["{update: ema, decay: 0.5}", "{update: reset, every: 2}"])
def test_a_moving_reference_moves_and_resumes_bit_for_bit(
    config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    moving = config(
        "algorithm={name: grpo, reference: " + rule + "}", "stages.1.update={lr: 1.0e-2}"
    )
    whole = train(moving, out=tmp_path / "whole").folder
    still = train(
        config("algorithm={name: grpo}", "stages.1.update={lr: 1.0e-2}"), out=tmp_path / "still"
    ).folder
    rows = [
        [r["kl/reference"] for r in lines(run / "metrics.jsonl") if "kl/reference" in r]
        for run in (whole, still)
    ]
    assert rows[0][0] == rows[1][0]
    assert rows[0][-1] != rows[1][-1]

    assert_same_run(whole, killed_and_resumed(moving, tmp_path / "killed", 5, monkeypatch))


def test_a_moving_reference_needs_its_own_weights(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    wanted = config("algorithm={name: grpo, reference: {update: ema}}", "policy.lora={rank: 2}")
    with pytest.raises(ConfigError, match=r"reference.update: ema, but with LoRA adapters"):
        train(wanted, out=tmp_path / "run")


@pytest.mark.parametrize(
    "method",
    [
        "{name: gpg, select: {name: cppo, share: 0.5}}",
        "{name: grpo, select: {name: pods, keep: 2}}",
        "{name: gvpo, replay: {name: fifo, add: 2}}",
        "{name: grpo, keep: {name: dynamic_sampling, max_attempts: 1}, replay: {name: fifo, add: 1}}",
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


FRAGILE = """
import os

def fragile(completion, sample):
    if len(completion) % 2:
        os._exit(9)
    return 1.0
"""


def test_a_reward_that_fails_in_its_worker_counts_zero_and_is_reported(
    config: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    section = "{weight: 0.5, workers: 1, time_limit: 5, on_error: zero}"
    rewards = f"task.rewards={{{tmp_path / 'fragile.py'}:fragile: {section}}}"
    others = set(filter(is_worker, Path("/proc").glob("[0-9]*/stat")))  # of graders, in other tests
    run = train(config(rewards, "stages.1.steps=1", "eval.limit=2"), out=tmp_path / "run").folder
    (metrics,) = [m for m in lines(run / "metrics.jsonl") if m["stage"] == "gpg"]
    rows = [r for r in lines(run / "rollouts.jsonl") if r["stage"] == "gpg"]
    assert metrics["reward/fragile/errors"] >= sum("errors" in r for r in rows) > 0
    for row in rows:
        assert row["scores"]["fragile"] == float(len(row["completion"]) % 2 == 0)
        assert ("errors" in row) == (row["scores"]["fragile"] == 0.0)
    stderr = capsys.readouterr().err
    assert stderr.count("reward fragile raised WorkerDied") == 1
    assert set(filter(is_worker, Path("/proc").glob("[0-9]*/stat"))) <= others


def is_worker(stat: Path) -> bool:
    """Whether it is a child of this process that serves calls."""
    try:
        parent = int(stat.read_text().rpartition(")")[2].split()[1])
        return (
            parent == os.getpid()
            and "vlrft.workers.worker_main" in (stat.parent / "cmdline").read_text()
        )
    except OSError:
        return False
