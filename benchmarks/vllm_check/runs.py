"""Rewards, gaps and versions of a finished run, read from its folder."""

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
    gaps: tuple[float, ...]  # largest of each step, over all tokens that are trained on, in nats
    mean_gaps: tuple[float, ...]
    versions: dict[str, str]


def read_run(case: Case, folder: Path) -> Run:
    """Reads metrics and summary. Raises FileNotFoundError where there is no finished run."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    steps: list[dict[str, Any]] = [json.loads(line) for line in lines]
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    return Run(
        case=case,
        rewards=tuple(step["reward/mean"] for step in steps),
        gaps=tuple(step["sampler_gap/max"] for step in steps),
        mean_gaps=tuple(step["sampler_gap/mean"] for step in steps),
        versions=summary["versions"],
    )
