"""Runs of a very small policy on digits, and the comparison of two runs' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from vlrft.config import Config
from vlrft.reporting.run_log import RunLog
from vlrft.trainer.train import train

TINY = """
task: {name: digits, options: {subtasks: [classify, count], train: 60, test: 20}}
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


class Killed(BaseException):
    """Simulates a kill: no code catches it."""


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
