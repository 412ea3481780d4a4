"""A task bound to the options, the split and the rewards that a config chose. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import overload

from pydantic import TypeAdapter

from vlrft.config import ConfigError, TaskConfig
from vlrft.grades import Graders
from vlrft.plugins import find_reward, find_task
from vlrft.schema import DataError, Sample, Task
from vlrft.scoring import NamedReward


@dataclass(frozen=True, kw_only=True)
class BoundTask:
    """What playing and grading a task takes."""

    task: Task
    samples: Sequence[Sample]
    rewards: tuple[NamedReward, ...]

    @cached_property
    def graders(self) -> Graders:
        return Graders.of(self.task)

    def head(self, limit: int | None) -> Sequence[Sample]:
        """The first `limit` samples; all when None. Each is made when it is asked for."""
        return Head(self.samples, range(len(self.samples))[:limit])

    def text(self, samples: int) -> Iterator[str]:
        """What the first samples say and what their gold answers are, for the tokenizer of a built policy."""
        for sample in islice(iter(self.samples), samples):
            for message in sample.messages:
                yield from (part for part in message.content if isinstance(part, str))
            yield self.task.gold(sample)


@dataclass(frozen=True)
class Head(Sequence[Sample]):
    """Some of the samples, made when they are asked for."""

    samples: Sequence[Sample]
    places: range

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Head: ...
    def __getitem__(self, index: int | slice) -> Sample | Head:
        if isinstance(index, slice):
            return Head(self.samples, self.places[index])
        return self.samples[self.places[index]]


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
