"""An output -> its grades: what the strict grader and the published one give it. Offline and in training alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vlrft.grading import read_answer
from vlrft.plugins.find import find_grader
from vlrft.schema import DataError, Record, Reward, Sample, Task

STRICT = "strict"  # the grader that every task has
NONE: Mapping[str, float | None] = {}


@dataclass(frozen=True, kw_only=True)
class Graders:
    """A task's graders, found by name."""

    rewards: Mapping[str, tuple[Reward | str, ...]]
    """Grader -> its rewards, the first that applies counts; a string is a score that the environment gives."""
    extract: Callable[[str], str | None]

    @staticmethod
    def of(task: Task) -> Graders:
        found = {
            grader: tuple(n if n in task.env_scores else find_grader(n) for n in own)
            for grader, own in task.graders.items()
        }
        return Graders(rewards=found, extract=task.extract or read_answer)

    def grade(
        self, name: str, output: str, sample: Sample, scores: Mapping[str, float | None] = NONE
    ) -> float:
        """`scores`: of the play. Raises DataError for an unreadable gold answer, and when no reward of the grader
        applies."""
        given = self._given(name, output, sample, scores)
        if given is None:
            raise DataError(
                f"sample {sample.id}: no reward of the {name} grader applies; check the task's graders and tags"
            )
        return given

    def record(
        self,
        sample: Sample,
        output: str,
        scores: Mapping[str, float | None] = NONE,
        **known: object,
    ) -> Record:
        """The output graded by the strict grader and each other that applies; `known` is what else the record holds
        (errors, turns, truncated)."""
        grades = {
            name: (self.grade if name == STRICT else self._given)(name, output, sample, scores)
            for name in self.rewards
        }
        return Record(
            id=sample.id,
            output=output,
            grades={name: grade for name, grade in grades.items() if grade is not None},
            extracted=self.extract(output),
            tags=sample.tags,
            answer=sample.answer,
            info=sample.info,
            scores=scores,
            **known,  # type: ignore[arg-type]
        )

    def _given(
        self, name: str, output: str, sample: Sample, scores: Mapping[str, float | None]
    ) -> float | None:
        for reward in self.rewards[name]:
            if isinstance(reward, str):
                if reward not in scores:
                    what = (
                        f"is graded by the environment's score {reward!r}: play it, with vlrft eval"
                    )
                    raise DataError(f"sample {sample.id} {what}")
                given: object = scores[reward]
            else:
                given = reward(output, sample)
            if isinstance(given, int | float):
                return float(given)
        return None
