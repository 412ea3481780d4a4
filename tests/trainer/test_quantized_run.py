"""A run on 4-bit weights: sampled as it is trained, evaluated and resumed from its checkpoints as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.reporting.run_log import RunLog
from vlrft.schema.errors import ConfigError
from vlrft.trainer.api.evaluate import evaluate
from vlrft.trainer.train import train

pytest.importorskip("bitsandbytes", reason="the extra quantization")
RUN = """
task: {name: digits, options: {subtasks: [count], train: 60, test: 20}}
rollout: {group_size: 4, max_tokens: 4}
update: {lr: 0.02}
algorithm: grpo
stages:
  - {steps: 2, prompts_per_step: 4}
eval: {limit: 4}
save: {every: 1}
"""
EVEN = "def even(completion, sample):\n    return float(len(completion) % 2 == 0)\n"


@pytest.fixture
def config(tmp_path: Path, lora_base: Path) -> Config:
    (tmp_path / "even.py").write_text(EVEN)
    (tmp_path / "run.yaml").write_text(RUN)
    policy = f"policy={{model: {lora_base}, lora: {{rank: 4}}, quantization: nf4}}"
    rewards = f"task.rewards={{{tmp_path / 'even.py'}:even: 1.0}}"
    return load_config(str(tmp_path / "run.yaml"), [policy, rewards])


class Killed(BaseException):
    """Simulates a kill: no code catches it."""


def rows(path: Path) -> list[dict[str, Any]]:
    unstable = ("time/", "speed/", "memory/")
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(unstable)} for row in read]


def test_a_run_is_evaluated_and_resumed_as_it_was(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(config, out=whole)
    metrics = rows(whole / "metrics.jsonl")
    assert metrics[1]["grad_norm"] > 0
    assert max(row["sampler_gap/max"] for row in metrics) < 1e-5
    last = [row for row in rows(whole / "evals.jsonl") if row["step"] == 2]
    again = evaluate(whole, config, progress=False)
    assert [record.output for record in again.records] == [row["output"] for row in last]

    real = RunLog.step

    def kill(self: RunLog, stage: str, step: int, *rest: Any) -> None:
        if step == 2:
            raise Killed
        real(self, stage, step, *rest)

    monkeypatch.setattr(RunLog, "step", kill)
    with pytest.raises(Killed):
        train(config, out=killed)
    monkeypatch.setattr(RunLog, "step", real)
    train(config, out=killed, resume=True)
    assert rows(killed / "metrics.jsonl") == metrics
    adapters = [
        run / "checkpoints/last/adapter/adapter_model.safetensors" for run in (whole, killed)
    ]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()


def test_4_bit_weights_without_adapters_are_refused_before_the_policy_is_loaded(
    config: Config, tmp_path: Path
) -> None:
    whole = replace(config, policy=replace(config.policy, lora=None))
    with pytest.raises(ConfigError, match=r"set policy\.lora"):
        train(whole, out=tmp_path / "run")
    sharded = replace(config, engine="deepspeed")
    with pytest.raises(ConfigError, match="deepspeed does not train over 4-bit weights"):
        train(sharded, out=tmp_path / "run")
