"""The graders of a task: output -> a grade from the strict grader and each published one, in training and offline alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vlrft.grading import KINDS, read_answer, why_no_answer
from vlrft.plugins.attribution import attributed
from vlrft.plugins.find import find_grader
from vlrft.schema import DataError, Record, Reward, RewardError, Sample, Task, Unreadable
from vlrft.schema.errors import ConfigError
from vlrft.schema.finite_number import read_finite

STRICT = "strict"  # the grader that every task has
NO_SCORES: Mapping[str, float | None] = {}


@dataclass(frozen=True, kw_only=True)
class Graders:
    """A task's graders, found by name."""

    rewards: Mapping[str, tuple[Reward | str, ...]]
    """Grader -> its rewards, of which the first that applies counts; a string is the name of an environment's score."""
    extract: Callable[[str], str | None]
    options: frozenset[str] = frozenset()  # names of the task's options

    @staticmethod
    def of(task: Task) -> Graders:
        """Raises PluginError for a name that is no grader, ConfigError for a task without a strict one."""
        if not task.graders.get(STRICT):
            raise ConfigError(
                [
                    f"task {task.name}: it has no rewards of its own with these options; name yours, such as "
                    "task.rewards={./my_reward.py: 1.0}; the first that applies and "
                    "reads the gold answer, not the form or the length alone, is the strict grader"
                ]
            )
        rewards = {
            grader: tuple(n if n in task.env_scores else find_grader(n) for n in names)
            for grader, names in task.graders.items()
        }
        options = frozenset(getattr(task.options, "__dataclass_fields__", ()))
        return Graders(rewards=rewards, extract=task.extract or read_answer, options=options)

    def grade(
        self, name: str, output: str, sample: Sample, scores: Mapping[str, float | None] = NO_SCORES
    ) -> float:
        """The grade of an output. `scores`: those of the rollout. Raises DataError for an unreadable gold answer, and if no
        reward of the grader applies."""
        grade = self._first_grade(name, output, sample, scores)
        if grade is None:
            raise _none_applies(name, sample)
        return grade[0]

    def record(
        self,
        sample: Sample,
        output: str,
        scores: Mapping[str, float | None] = NO_SCORES,
        **others: object,
    ) -> Record:
        """A record of the output with the grade of the strict grader and of each other that applies; `others`: other
        fields of the record (errors, turns, truncated)."""
        grades = {name: self._first_grade(name, output, sample, scores) for name in self.rewards}
        strict = grades[STRICT]
        if strict is None:
            raise _none_applies(STRICT, sample)
        extracted = self._extract(sample, output)
        unreadable = ""
        if strict[0] == 0.0 and not others.get("turns"):
            unreadable = self._why_unreadable(strict[1], output, sample, extracted)
        return Record(
            id=sample.id,
            output=output,
            grades={name: grade[0] for name, grade in grades.items() if grade is not None},
            extracted=extracted,
            unreadable=unreadable,
            tags=sample.tags,
            answer=sample.answer,
            info=sample.info,
            scores=scores,
            **others,  # type: ignore[arg-type]
        )

    def _why_unreadable(
        self, reward: Reward | str, output: str, sample: Sample, extracted: str | None
    ) -> str:
        """Why this strict reward reads no answer in an output to which it gave 0; "" where it reads one."""
        reason: Unreadable | None = None
        explain = getattr(reward, "why_unreadable", None)
        if explain is not None:
            with attributed(f"sample {sample.id}: the reasons of a strict reward", RewardError):
                reason = explain(output, sample)
        elif not isinstance(reward, str) and extracted is None:
            reason = why_no_answer(output) or Unreadable(why="no answer found")
        if reason is None:
            return ""
        if reason.option is not None and reason.option[0] in self.options:
            return f"{reason.why}: try options.{'='.join(reason.option)}"
        return reason.why

    def _first_grade(
        self, name: str, output: str, sample: Sample, scores: Mapping[str, float | None]
    ) -> tuple[float, Reward | str] | None:
        """The value of the grader's first reward that applies, and that reward; None if none does."""
        for reward in self.rewards[name]:
            if isinstance(reward, str):
                if reward not in scores:
                    raise DataError(
                        f"sample {sample.id} is graded by the environment's score {reward!r}, which a stored output "
                        "does not have; use vlrft eval"
                    )
                value: object = scores[reward]
            else:
                grader = f"sample {sample.id}: a reward of the {name} grader"
                with attributed(grader, RewardError):
                    value = reward(output, sample)
            if value is not None and not isinstance(value, Mapping):
                try:
                    return read_finite(value), reward
                except ValueError as e:
                    raise RewardError(f"sample {sample.id}: the {name} grader gave {e}") from None
        return None

    def _extract(self, sample: Sample, output: str) -> str | None:
        with attributed(f"sample {sample.id}: the task's `extract`"):
            return self.extract(output)


def _none_applies(grader: str, sample: Sample) -> DataError:
    problem = f"sample {sample.id}: no reward of the {grader} grader applies"
    kind = sample.tags.get("answer")
    if kind is None:
        return DataError(f"{problem}; check the task's graders and tags")
    return DataError(
        f"{problem} to an answer of kind {kind!r}; kinds that shipped rewards read: {', '.join(KINDS)}; correct the kind, "
        "or name a reward that reads it (task.rewards)"
    )
