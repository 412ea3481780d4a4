"""A task bound to the options, the split and the rewards that a config chose. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic import TypeAdapter

from vlrft.config import ConfigError, TaskConfig
from vlrft.plugins import find_reward, find_task
from vlrft.schema import DataError, Sample, Task
from vlrft.scoring import NamedReward


@dataclass(frozen=True, kw_only=True)
class BoundTask:
    """What playing and grading a task takes."""

    task: Task
    samples: Sequence[Sample]
    rewards: tuple[NamedReward, ...]

    def head(self, limit: int | None) -> list[Sample]:
        """The first `limit` samples; all when None."""
        return [self.samples[i] for i in range(len(self.samples))[:limit]]

    def text(self, samples: int) -> Iterator[str]:
        """What the first samples say and what their gold answers are, for the tokenizer of a built policy."""
        for sample in islice(iter(self.samples), samples):
            for message in sample.messages:
                yield from (part for part in message.content if isinstance(part, str))
            yield self.task.gold(sample)


def bind(config: TaskConfig, split: str) -> BoundTask:
    """The task's samples of one split. Raises DataError when there are none, ConfigError for a wrong split."""
    task = find_task(config.name)
    if split not in task.splits:
        raise ConfigError(
            [f"task {task.name} has no split {split!r}; it has {', '.join(task.splits)}"]
        )
    samples = task.load(split, TypeAdapter(task.options).validate_python(dict(config.options)))
    if not len(samples):
        raise DataError(f"task {task.name}: the {split} split has no samples; check task.options")
    weights = task.rewards if config.rewards is None else config.rewards
    rewards = tuple(
        NamedReward(name=name.rpartition(":")[2], weight=weight, function=find_reward(name))
        for name, weight in weights.items()
    )
    return BoundTask(task=task, samples=samples, rewards=rewards)
