"""Runs whose rollouts are the real vLLM's: `make test-vllm`. One server samples ahead of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.rollout.engines.vllm.real.servers import MARKS, PYTHON
from vlrft.config.load import load_config
from vlrft.trainer.train import train

CONFIG = """
task: {name: digits, options: {subtasks: [classify], train: 12}}
policy: {build: {init_scale: 4.0}}
rollout: {group_size: 2, max_tokens: 6}
algorithm: {name: grpo, regularize: {kl: 0}}
stages: [{steps: 4, prompts_per_step: 2}]
update: {lr: 1.0e-3}
eval: {limit: 1}
save: {every: 0}
log: {groups_per_step: 2}  # all of them
"""
LENGTH = "def length(completion, sample):\n    return min(len(completion), 9) / 9\n"

pytestmark = MARKS


def rows(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text("utf-8").splitlines()]


def prompts(run: Path) -> list[tuple[int, str]]:
    """The step and the sample of each logged rollout; all are logged."""
    return sorted((row["step"], row["id"]) for row in rows(run, "rollouts.jsonl"))


def test_rollouts_ahead_are_of_the_prompts_of_the_hf_engine_and_of_older_weights(
    tmp_path: Path,
) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    (tmp_path / "mine.py").write_text(LENGTH)
    own = f"task.rewards={{{tmp_path / 'mine.py'}:length: 1.0}}"
    bounded = {"name": "vllm", "python": str(PYTHON), "check_every": 1, "max_gap": 1e-5}
    ahead = (
        f"rollout.engine={json.dumps(bounded)}",
        "rollout.ahead=1",
        "algorithm.correction={level: token}",
    )
    folders = []
    for name, overrides in (("hf", ()), ("vllm", ahead)):
        config = load_config(str(tmp_path / "tiny.yaml"), (own, *overrides))
        folders.append(train(config, out=tmp_path / name).folder)
    hf, vllm = folders
    assert prompts(vllm) == prompts(hf)
    metrics = rows(vllm, "metrics.jsonl")
    assert max(row["staleness/mean"] for row in metrics) == 1
    assert all(row["sampler_gap/mean"] < 1e-5 for row in metrics if row["staleness/mean"] == 0)
