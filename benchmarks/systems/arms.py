"""The configs of the runs: a warm-up for each seed, and for each system a run from it with its rewards and one without.

A system keeps all that its row says: algorithm, selection, prompts, group size, the number of prompts relative to the
quickstart's. Replaced are the task, the policy, the warm-up (shared by all systems of a seed), the learning rate and the length.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from vlrft.config.systems import System, system_tree

Tree = dict[str, Any]
Arm = Literal["rewards", "permuted", "rewards_again", "permuted_again"]
ARMS: tuple[Arm, ...] = ("rewards", "permuted")
AGAIN: Mapping[Arm, Arm] = {"rewards_again": "rewards", "permuted_again": "permuted"}
"""Arms in which the same few prompts come again and again, and those that they are otherwise like."""

TASK = "benchmarks.systems.task:task"
BUILD: Tree = {
    "family": "qwen2",
    "hidden_size": 64,
    "layers": 1,
    "heads": 4,
    "kv_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 300,
}
STEPS, RATE = 40, 5e-4
BASE_PROMPTS, PROMPTS = 64, 16
"""Prompts a step: of the quickstart, and here."""
FEW = 64
"""The prompts of the arms of `AGAIN`: ten visits of each in all steps."""
HELD_OUT = 256
WARM_STEPS, WARM_PROMPTS, WARM_RATE = 400, 48, 3e-3
ROLLOUT: Tree = {"group_size": 8, "temperature": 1.0, "max_tokens": 10}


def warm_up(seed: int) -> Tree:
    """The config that builds and teaches the policy from which all runs of the seed start."""
    stage: Tree = {
        "algorithm": "sft",
        "steps": WARM_STEPS,
        "prompts_per_step": WARM_PROMPTS,
        "task": {"options": {"warm": True, "samples": 4096}},
        "update": {"lr": WARM_RATE, "schedule": "cosine", "warmup_steps": 20},
    }
    return {
        "task": {"name": TASK, "options": {"draw": seed}},
        "policy": {"build": BUILD},
        "rollout": ROLLOUT,
        "stages": [stage],
        **_common(seed),
    }


def arm(system: System, kind: Arm, seed: int, policy: Path) -> Tree:
    """The config of a run of the system, from the policy in a folder; `permuted`: each group's rewards are permuted; `again`: few prompts."""
    tree = system_tree(system)
    few = {"train": FEW} if kind in AGAIN else {}
    task: Tree = {"name": TASK, "options": {"draw": seed, **few}}
    if "rewards" in (system.config or {}).get("task", {}):
        task["rewards"] = tree["task"]["rewards"]
    stages = tree["stages"]
    if len(stages) > 1 and stages[0].get("algorithm") == "sft":
        stages = stages[1:]  # the warm-up
    kept: Tree = {key: tree[key] for key in tree.keys() & {"algorithm", "update"}}
    return {
        **kept,
        "task": task,
        "policy": {"model": str(policy)},
        "rollout": {**tree["rollout"], "max_tokens": ROLLOUT["max_tokens"]},
        "stages": [_stage(stage, len(stages)) for stage in stages],
        "permute_rewards": AGAIN.get(kind, kind) == "permuted",
        **_common(seed),
    }


def digest_of(system: System, kind: Arm, seed: int) -> str:
    """Tells the config of a run, and that of its warm-up, from others; the folder of the policy does not matter."""
    tree = {**arm(system, kind, seed, Path()), "policy": "warm-up", "warm": warm_up(seed)}
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:12]


def _stage(stage: Tree, count: int) -> Tree:
    prompts = stage.get("prompts_per_step", BASE_PROMPTS) * PROMPTS // BASE_PROMPTS
    own = {key: value for key, value in stage.items() if key not in ("task", "epochs")}
    update = {**stage.get("update", {}), "lr": RATE, "schedule": "constant", "warmup_steps": 0}
    return {**own, "steps": STEPS // count, "prompts_per_step": prompts, "update": update}


def _common(seed: int) -> Tree:
    return {
        "seed": seed,
        "device": "cpu",
        "eval": {"limit": HELD_OUT},
        "log": {"groups_per_step": 0, "zero_reward_steps": 0},
    }
