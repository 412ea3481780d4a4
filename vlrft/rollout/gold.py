"""Gold answers: the answer, or the turns in an environment, that the task gives full marks. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.envs import EnvFailure, Host
from vlrft.schema import DataError, Observation, Sample, Task
from vlrft.scoring.graders import STRICT, Graders


def gold_turns(task: Task, sample: Sample) -> Sequence[str]:
    """The text of each turn of the sample's gold answer. Raises DataError for a thought before an answer of several turns."""
    gold = task.gold(sample)
    if isinstance(gold, str):
        return [_with_thought(gold, sample.thought)]
    if sample.thought:
        raise DataError(
            f"{sample.id}: has a thought, which comes before a gold answer of one turn; {task.name} has turns of an environment"
        )
    return gold


def _with_thought(gold: str, thought: str) -> str:
    """A gold answer with the thought before its first `</think>`, or on a line of its own before an answer without one."""
    before, end, after = gold.partition("</think>")
    if end:
        return f"{before}{thought}{end}{after}"
    return f"{thought}\n{gold}" if thought else gold


def gold_text(task: Task, sample: Sample) -> str:
    """The gold answer as a reward reads it: its turns joined by newlines."""
    return "\n".join(gold_turns(task, sample))


def grade_gold_answer(
    task: Task, graders: Graders, sample: Sample, host: Host
) -> tuple[Sequence[str], float]:
    """Plays the gold answer; returns its turns and the strict grade. Raises DataError where the environment fails, and where
    the gold answer has no turn."""
    turns = gold_turns(task, sample)
    if not turns:
        raise DataError(f"sample {sample.id}: the gold answer has no turn")
    _, scores = walk(sample, turns, host)
    return turns, graders.grade(STRICT, "\n".join(turns), sample, scores)


def walk(
    sample: Sample, turns: Sequence[str], host: Host
) -> tuple[list[Observation], dict[str, float | None]]:
    """Plays these turns in the sample's environment; returns the observations before each of them and the scores.

    Raises DataError where the environment fails.
    """
    ((handle, result),) = host.start([sample])
    observations: list[Observation] = []
    scores: dict[str, float | None] = {}
    try:
        for text in turns:
            if isinstance(result, EnvFailure):
                raise DataError(result.message)
            observations.append(result)
            step = host.step({handle: text})[handle]
            if isinstance(step, EnvFailure):
                raise DataError(step.message)
            scores |= step.scores
            if step.observation is None:
                break
            result = step.observation
    finally:
        host.close([handle])
    return observations, scores
