"""What the comparison reads of a run's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.vllm_check.cases import Case


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    case: Case
    rewards: tuple[float, ...]  # mean of each step
    gaps: tuple[float, ...]  # largest of each step's first update, in nats
    tokens: int  # sampled, all of which are compared
    prompts: tuple[tuple[str, ...], ...]  # ids of each step's samples, sorted
    seconds: float
    versions: dict[str, str]


def read_run(case: Case, folder: Path) -> Run:
    """Reads metrics, rollouts and summary. Raises FileNotFoundError where there is no finished run."""
    steps = _read_lines(folder / "metrics.jsonl")
    rollouts = _read_lines(folder / "rollouts.jsonl")
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    ids: dict[int, list[str]] = {step["step"]: [] for step in steps}
    for rollout in rollouts:
        ids[rollout["step"]].append(rollout["id"])
    return Run(
        case=case,
        rewards=tuple(step["reward/mean"] for step in steps),
        gaps=tuple(step["sampler_gap/max"] for step in steps),
        tokens=sum(rollout["tokens"] for rollout in rollouts),
        prompts=tuple(tuple(sorted(group)) for group in ids.values()),
        seconds=summary["seconds"],
        versions=summary["versions"],
    )


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
