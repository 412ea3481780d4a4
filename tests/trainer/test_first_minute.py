"""The messages of a run to somebody who watches it: its header, steps without a reward, and folders that hold a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.main import main
from vlrft.reporting.run_result import read_result
from vlrft.trainer.zero_reward import ZeroRewards

TINY = """
task: {name: digits, options: {subtasks: [count], data: null}, rewards: {count: 2.0, format: 0.5}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 2}
stages:
  - {steps: 1, prompts_per_step: 2}
eval: {limit: 2}
"""
ZERO = {"reward/mean": 0.0, "reward/std": 0.0}
SOME = {"reward/mean": 0.0, "reward/std": 0.5}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY.replace(", data: null", ""))
    return path


def test_a_run_starts_with_a_header_and_ends_with_code_3_where_nothing_earned_a_reward(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(tiny), "--out", "run"]) == 3
    lines = capsys.readouterr().err.splitlines()
    top = lines[: next(k for k, line in enumerate(lines) if line.startswith("evaluation"))]
    assert len(top) <= 12
    names = [line.split()[0] for line in top]
    assert names == ["run", "policy", "device", "data", "gpg", "eval", "memory", "disk"]
    text = "\n".join(top)
    for part in (
        "run, from the beginning, seed 0",
        "qwen2_vl",
        "parameters, all trained",
        "float32",
    ):
        assert part in text
    assert "digits: train 6,000; test 2,000 samples" in text
    assert "1 step of 2 prompts x 2 completions, lr 1e-06; rewards: count 2, format 0.5" in text
    assert "no completion has earned a reward in 1 step: nothing can be learned so" in lines
    assert any(line.startswith("of the last step: unreadable") for line in lines)
    assert lines[-1].startswith(
        "vlrft: no completion earned a reward from the first step to the last"
    )
    assert main(["train", str(tiny), "--out", "run", "--resume"]) == 3
    assert "run: the run is finished, 1 of 1 steps" in capsys.readouterr().err


def test_a_control_run_ends_with_code_0(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tiny), "--out", "run", "permute_rewards=true"]) == 0
    output = capsys.readouterr().err
    assert "no completion" not in output
    assert "control  rewards are permuted" in output


def test_steps_without_reward_are_reported_once_and_not_again_after_a_resume() -> None:
    task: Any = None  # it is not asked without groups
    watch = ZeroRewards(3)
    said = [watch.observe(row, [], task) for row in (ZERO, ZERO, SOME, ZERO, ZERO)]
    assert said == [[]] * 5
    assert watch.observe({"loss": 1.0}, [], task) == []
    (line,) = watch.observe(ZERO, [], task)
    assert line.startswith("no completion has earned a reward in 3 steps")
    assert watch.observe(ZERO, [], task) == []
    resumed = ZeroRewards(3)
    resumed.resume([ZERO, ZERO])
    assert resumed.observe(ZERO, [], task)
    again = ZeroRewards(3)
    again.resume([ZERO] * 4)
    assert again.observe(ZERO, [], task) == []


def test_a_history_of_demonstrations_has_no_reward_to_miss(tmp_path: Path) -> None:
    def earned_nothing(*rows: dict[str, float]) -> bool:
        text = "".join(
            json.dumps({"stage": "a", "step": k, **row}) + "\n" for k, row in enumerate(rows, 1)
        )
        (tmp_path / "metrics.jsonl").write_text(text)
        return read_result(tmp_path).earned_nothing

    assert not earned_nothing({"loss": 1.0})
    assert earned_nothing({"loss": 1.0}, ZERO, ZERO)
    assert not earned_nothing({"loss": 1.0}, ZERO, SOME)
    assert not earned_nothing(ZERO, {"reward/mean": 0.25, "reward/std": 0.0})
