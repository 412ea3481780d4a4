"""What earns full marks: a gold answer, or what gold says turn by turn to an environment. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.envs import EnvFailure, Host
from vlrft.schema import DataError, Observation, Sample, Task
from vlrft.scoring.graders import STRICT, Graders


def gold_turns(task: Task, sample: Sample) -> Sequence[str]:
    """What to say, turn by turn."""
    gold = task.gold(sample)
    return [gold] if isinstance(gold, str) else gold


def gold_text(task: Task, sample: Sample) -> str:
    """All that gold says, as a reward reads it: turns joined by newlines."""
    return "\n".join(gold_turns(task, sample))


def grade_gold_answer(
    task: Task, graders: Graders, sample: Sample, host: Host
) -> tuple[Sequence[str], float]:
    """What gold says turn by turn, and what the strict grader gives it when it is played. Raises DataError."""
    said = gold_turns(task, sample)
    _, scores = walk(sample, said, host)
    return said, graders.grade(STRICT, "\n".join(said), sample, scores)


def walk(
    sample: Sample, said: Sequence[str], host: Host
) -> tuple[list[Observation], dict[str, float | None]]:
    """What the sample's environment shows when these things are said to it, and what it scores them.

    Raises DataError where it fails.
    """
    ((handle, seen),) = host.start([sample])
    shown: list[Observation] = []
    scores: dict[str, float | None] = {}
    try:
        for text in said:
            if isinstance(seen, EnvFailure):
                raise DataError(seen.message)
            shown.append(seen)
            step = host.step({handle: text})[handle]
            if isinstance(step, EnvFailure):
                raise DataError(step.message)
            scores |= step.scores
            if step.observation is None:
                break
            seen = step.observation
    finally:
        host.close([handle])
    return shown, scores
