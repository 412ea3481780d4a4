"""`sft_observations` trains on the text that an environment adds to a conversation, and `sft` does not."""

from __future__ import annotations

import json
from pathlib import Path

from vlrft.config.load import load_config
from vlrft.trainer.train import train

TINY = """
task: {name: "tests.fakes.counting:task"}
policy: {build: {family: qwen2, hidden_size: 16, layers: 1, heads: 2, kv_heads: 2, intermediate_size: 16}}
rollout: {group_size: 2, max_tokens: 4}
stages:
  - {algorithm: sft, steps: 1, prompts_per_step: 4}
  - {algorithm: sft_observations, steps: 1, prompts_per_step: 4}
eval: {limit: 2, split: test}
"""


def test_observations_are_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "count.yaml"
    path.write_text(TINY)
    run = tmp_path / "run"
    train(load_config(str(path)), out=run)
    answers, both = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    assert answers["env/turns"] == both["env/turns"] == 3
    assert both["length/mean"] > 2 * answers["length/mean"]
    assert both["loss"] > 0
