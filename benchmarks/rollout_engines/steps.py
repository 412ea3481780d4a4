"""Steps of real runs with `rollout.ahead` 0, 1 and 2, and the model of the same steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

from vlrft.testing.pipeline.plan import Pipeline, ServerTimes, Workload
from vlrft.testing.pipeline.simulate import simulate

AHEAD = (0, 1, 2)
# differs from answer to answer, so that every group has a gradient
REWARD = f"{Path(__file__).parents[1] / 'real_size/reward.py'}:spread"
STEPS, SKIP = 8, 3  # steps of a run, and those before the measured ones
PROMPTS, GROUP, LENGTH = 16, 4, 48
CONFIG = f"""
task:
  name: digits
  options: {{subtasks: [classify], sizes: [50, 56]}}
  rewards: {{{REWARD}: 1.0}}
policy: {{build: {{family: qwen2_vl, init_scale: 1.0}}, dtype: float32}}
rollout: {{group_size: {GROUP}, max_tokens: {LENGTH}, max_prompt_tokens: 512}}
algorithm: {{name: grpo, correction: {{level: token, rule: truncate, cap: 2.0}}, keep: all}}
stages:
  - {{steps: {STEPS}, prompts_per_step: {PROMPTS}, update: {{lr: 1.0e-6}}}}
eval: {{limit: 8}}
"""


def measure(engine: str, ahead: int, python: str, folder: Path) -> dict[str, Any]:
    """Medians over the steps of a run after the first ones. A run that is complete is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    config, run = folder / "steps.yaml", folder / f"{engine}_{ahead}"
    config.write_text(CONFIG)
    command = [
        sys.executable,
        "-m",
        "vlrft",
        "train",
        str(config),
        "--out",
        str(run),
        "--overwrite",
    ]
    command.append(f"rollout.ahead={ahead}")
    if engine != "hf":
        thread = f"env, -u, PYTHONPATH, OMP_NUM_THREADS=1, {python}"
        server = f"[{thread}, -m, vllm.entrypoints.cli.main]"
        command.append(
            f"rollout.engine={{name: {engine}, command: {server}, context: 1024, max_gap: 0.01}}"
        )
    if not (run / "report.html").exists():
        with (folder / f"{engine}_{ahead}.txt").open("w") as log:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, env=environment, stdout=log, stderr=log)
    steps = [json.loads(line) for line in (run / "metrics.jsonl").open()][SKIP:]
    names = {key for step in steps for key in step if key.startswith(("time/", "staleness/"))}
    values = {name: median(step[name] for step in steps if name in step) for name in names}
    mean_tokens = mean(step["length/mean"] for step in steps)
    return {**values, "tokens_mean": mean_tokens, "load": os.getloadavg()[0]}


def expect(in_turn: dict[str, Any], ahead: int) -> dict[str, float]:
    """The model's step time and staleness for `ahead`, with the times of the run without it.

    A decoding step is taken to cost as much as its rows, as on a CPU with one thread: twice the rows take twice as long.
    Completions have the mean length. The rest of a step is the trainer's.
    """
    rows = PROMPTS * GROUP
    sampling = in_turn["time/rollout_s"]
    row = sampling / rows / max(round(in_turn["tokens_mean"]), 1)
    pipeline = Pipeline(
        server=ServerTimes(token=row, row=row),
        ahead=ahead,
        train=in_turn["time/step_s"] - sampling,
    )
    work = Workload(samples=PROMPTS, group=GROUP, tokens=in_turn["tokens_mean"])
    report = simulate(pipeline, [work.step(0, k) for k in range(STEPS)]).report(SKIP)
    return {"step_seconds": report.step_seconds, "staleness": report.staleness}
