"""Makers of run logs and of what is logged, and a reader of their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlrft.evaluation.evaluate import Evaluation, MetricValue
from vlrft.reporting.run_log import RunLog
from vlrft.schema import Group, Record, Turn
from vlrft.testing.small_policies import group, noise_image, sample


def log(run: Path, **settings: Any) -> RunLog:
    return RunLog(run, task="toy", algorithm="gpg", seed=3, total_steps=5, **settings)


def pictured() -> Group:
    asked = replace(sample("a", "7", kind="classify"), images=(noise_image(8, 8),))
    return replace(group("a", [0.0, 1.0]), sample=asked)


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def evaluation(score: float) -> Evaluation:
    value = MetricValue(
        correct=1, n=2, score=score, ci=(0.0, 1.0), ci_method="wilson", values=(score, score)
    )
    record = Record(id="a", output="7", scores={"choice": 1.0}, tags={"kind": "classify"})
    return Evaluation(graded={"strict": {"classify": value}}, records=(record,))


def turns(*shown: str) -> tuple[tuple[str, Turn], ...]:
    """Texts and turns of an episode with these observations: the first has an image, the last no valid action."""
    made = [Turn(shown=text, reward=0.5) for text in shown[:-1]]
    made = [*made, Turn(shown=shown[-1], reward=1.0, penalty=0.25, valid=False)]
    made[0] = replace(made[0], images=(noise_image(8, 8),))
    return tuple((f"to {turn.shown}", turn) for turn in made)
