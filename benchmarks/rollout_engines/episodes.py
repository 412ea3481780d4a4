"""Episodes in grid world and ALFWorld: in lock-step with hf, and each turn as it is ready with vllm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.rollout_engines.sides import TreeMeter, make_policy, open_engine
from vlrft.config import EnvConfig, TaskConfig
from vlrft.rollout.engines import Sampling
from vlrft.rollout.play import play
from vlrft.rollout.seeds import seed_from
from vlrft.rollout.task import LoadedTask, load_task

SAMPLES, GROUP, TURNS, LENGTH = 4, 4, 8, 16
WORKERS = 2
GAMES = 6


def load(name: str, folder: Path) -> LoadedTask:
    """The task; ALFWorld's games are generated in `folder` first, by its own generator."""
    options: dict[str, Any] = {}
    if name == "alfworld":
        from vlrft.tasks.alfworld import task

        assert task.generate is not None
        if not folder.is_dir():
            list(task.generate("train", GAMES, 0, folder, task.options()))
        options = {"data": str(folder)}
    env = EnvConfig(workers=WORKERS, max_turns=TURNS, on_error="keep")
    return load_task(TaskConfig(name=name, options=options, env=env), "train")


def measure(task: str, engine_name: str, python: str, folder: Path) -> dict[str, Any]:
    """Plays the first samples; the untrained policy's episodes end at the turn limit."""
    loaded = load(task, folder)
    try:
        policy = make_policy("1 M", list(loaded.text()))
        samples = list(loaded.samples[:SAMPLES])
        seeds = [[seed_from(s.id, g) for g in range(GROUP)] for s in samples]
        sampling = Sampling(max_tokens=LENGTH)
        with open_engine(engine_name, policy, python, context=8192) as engine:
            play(loaded, samples[:1], engine, policy.chat, sampling, seeds=[[1]])  # starts workers
            meter = TreeMeter()
            groups = play(loaded, samples, engine, policy.chat, sampling, seeds=seeds)
            measured = meter.read()
    finally:
        loaded.close()
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return {
        **measured,
        "episodes": len(rollouts),
        "turns": sum(len(rollout.turns) for rollout in rollouts),
        "tokens": sum(rollout.tokens for rollout in rollouts),
        "failed": sum(bool(rollout.errors) for rollout in rollouts),
        "prompt": max(len(row.prompt.ids) for rollout in rollouts for row in rollout.rows),
    }
