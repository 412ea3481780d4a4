"""The whole loop on a very small policy: files, resume, and rewards that fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.small_runs import Killed, assert_same_run, lines
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.reporting.run_folder.removal import read_run_folder
from vlrft.reporting.run_log import RunLog
from vlrft.schema.errors import ConfigError, StoredFileError
from vlrft.trainer.train import train


def test_a_run_leaves_its_files(config: Callable[..., Config], whole: Callable[..., Path]) -> None:
    run = whole("algorithm=gpg")
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
        "threshold",
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
    assert load_config(str(run / "config.yaml")) == config("algorithm=gpg")
    assert read_run_folder(run).foreign == ()


@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize(("algorithm", "background"), [("gpg", False), ("grpo", True)])
def test_a_killed_and_resumed_run_is_bit_identical(
    config: Callable[..., Config],
    whole: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    algorithm: str,
    background: bool,
) -> None:
    """Also where the resumed run wrote its checkpoints while it trained."""
    settings = config(f"algorithm={algorithm}")
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
    assert_same_run(whole(f"algorithm={algorithm}"), tmp_path / "parts")


def test_another_seed_is_another_run(
    config: Callable[..., Config], whole: Callable[..., Path], tmp_path: Path
) -> None:
    one = whole("algorithm=gpg")
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
    changes = r"--resume: stages.0.steps \(1, now 2\), seed \(0, now 3\) differ from .*config.yaml; use that"
    with pytest.raises(ConfigError, match=changes):
        train(config("stages=[{algorithm: sft, steps: 2}]", "seed=3"), out=run, resume=True)
    with pytest.raises(
        ConfigError, match=r"--resume: stages.0.update.lr \(0.001, now 0.1\) differs"
    ):
        train(
            config("stages=[{algorithm: sft, steps: 1, update: {lr: 0.1}}]"), out=run, resume=True
        )


def test_a_run_may_resume_with_settings_that_need_less_memory(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    """As `vlrft doctor` proposes them; they change no result."""
    run = train(config("stages=[{algorithm: sft, steps: 2}]"), out=tmp_path / "run").folder
    smaller = ("policy.activation_checkpointing=true", "update.max_tokens_per_micro_batch=64")
    stages = "stages=[{algorithm: sft, steps: 2, rollout: {max_rows: 2, max_cache_tokens: 999}}]"
    settings = config(stages, *smaller)
    train(settings, out=run, resume=True)
    assert load_config(run / "config.yaml") == settings


def test_a_run_that_resumes_on_other_data_says_so(
    config: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data file may change while its path, and so the config, stays the same."""
    settings = config("stages=[{algorithm: sft, steps: 1}]")
    run = train(settings, out=tmp_path / "run").folder
    train(settings, out=run, resume=True)
    assert "not those" not in capsys.readouterr().err
    summary = json.loads((run / "summary.json").read_text())
    now = summary["data"]["sft"]
    summary["data"]["sft"] = "119 samples, 0123456789ab"
    (run / "summary.json").write_text(json.dumps(summary))
    train(settings, out=run, resume=True)
    assert (
        f"--resume: the data of sft are not those of the steps so far: 119 samples, 0123456789ab, now {now}"
        in capsys.readouterr().err
    )


def test_an_unwritable_folder_is_a_one_line_error(
    config: Callable[..., Config], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        train(config(), out=tmp_path / "file" / "run")


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
