"""A run for the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reporting.html.runs import HOSTILE, rollout, write
from vlrft.reporting.run_folder.mark import write_mark
from vlrft.testing.small_policies import noise_image


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two steps, evaluated before and after."""
    (tmp_path / "config.yaml").write_text("task: {name: toy}\n")
    write_mark(tmp_path)
    (tmp_path / "images").mkdir()
    noise_image(28, 28).save(tmp_path / "images" / "x.png")
    metrics = [{"stage": "gpg", "step": s, "loss": 0.1 * s, "reward/mean": 0.2 * s} for s in (1, 2)]
    write(tmp_path / "metrics.jsonl", metrics)
    write(tmp_path / "rollouts.jsonl", [rollout(1, 0.25), rollout(1, 0.75)])
    evals, values = [], []
    for stage, step, right in (("init", 0, 1), ("gpg", 2, 3)):
        score = {"correct": right, "n": 4, "score": right / 4, "ci": [0.0, 1.0]}
        evals.append({"stage": stage, "step": step, "split": "test", "scores": {"ground": score}})
        scores = [1.0] * right + [0.0] * (4 - right)
        values.append({"stage": stage, "step": step, "split": "test", "values": {"ground": scores}})
    record = {**rollout(2, 0.5), "split": "test", "output": HOSTILE}
    del record["completion"], record["advantage"]
    write(tmp_path / "evals.jsonl", [record])
    write(tmp_path / "values.jsonl", values)
    (tmp_path / "summary.json").write_text(
        json.dumps(
            {
                "task": "toy",
                "algorithm": "gpg",
                "seed": 0,
                "seconds": {"total": 3.0},
                "evals": evals,
            }
        )
    )
    return tmp_path
