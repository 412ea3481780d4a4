"""Steps without any reward: after some in a row the run says so, with the likely reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vlrft.evaluation.evaluate import grade_rollout
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.reporting.run_result import earns_nothing
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group

SHOWN = 200  # characters of a completion


class ZeroRewards:
    """Counts the steps in a row in which no completion earned a reward, and reports them once."""

    def __init__(self, limit: int) -> None:
        """`limit`: the number of such steps after which they are reported; 0: never."""
        self.limit, self.steps, self.reported = limit, 0, False

    def resume(self, history: Iterable[Mapping[str, Any]]) -> None:
        """Counts the steps of the log of a resumed run; they have been reported."""
        for row in history:
            self._count(row)
        self.reported = self.limit > 0 and self.steps >= self.limit

    def observe(
        self, metrics: Mapping[str, Any], groups: Sequence[Group], loaded: LoadedTask
    ) -> list[str]:
        """The report, after the step that is one too many; else nothing."""
        self._count(metrics)
        if self.reported or self.limit == 0 or self.steps < self.limit:
            return []
        self.reported = True
        return explain(self.steps, groups, loaded)

    def _count(self, row: Mapping[str, Any]) -> None:
        earned = earns_nothing(row)
        if earned is not None:
            self.steps = self.steps + 1 if earned else 0


def explain(steps: int, groups: Sequence[Group], loaded: LoadedTask) -> list[str]:
    """The likely reasons for steps without a reward, from the last one: answers that the strict grader cannot read, answers
    that were cut, and one of them beside its gold answer."""
    head = f"no completion has earned a reward in {steps} step{'s'[: steps != 1]}: nothing can be learned so"
    sampled = [(g.sample, r) for g in groups for r in g.rollouts if r.origin != "injected"]
    if not sampled:
        return [head]
    records = [grade_rollout(loaded, sample, rollout) for sample, rollout in sampled]
    reasons = [
        f"of the last step: {line}" if k == 0 else line
        for k, line in enumerate(unreadable_lines(records))
    ]
    first = records[0]
    gold = f"; gold answer {str(first.answer)[:SHOWN]!r}"
    return [
        head,
        *(reasons or ["of the last step: all answers could be read, and are wrong"]),
        f"such as {first.id}: {first.output[:SHOWN]!r}{gold}",
        "check that the prompt asks for the form that the rewards read (vlrft check TASK), that rollout.max_tokens is "
        "long enough, and that the start model can do the task at all, or train it with sft first",
    ]
