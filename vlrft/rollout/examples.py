"""In-context examples: questions of a split with their gold answers and their images, shown before each question."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlrft.config.task import ExamplesConfig
from vlrft.data import LazySamples, Row, RowSamples
from vlrft.rollout.gold import gold_text
from vlrft.schema import IMAGE, VIDEO, Example, Message, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.schema.sample import count_slots


def with_examples(
    task: Task,
    samples: Sequence[Sample],
    config: ExamplesConfig,
    load: Callable[[str], Sequence[Sample]],
) -> Sequence[Sample]:
    """The samples with the examples of the config; the samples themselves where it asks for none. `load`: the samples of a
    split.

    Raises ConfigError for a task whose prompts cannot begin with examples, an unknown split and too few samples.
    """
    if not config.count:
        return samples
    if task.env is not None:
        raise ConfigError(
            [
                f"task.examples.count={config.count}: task {task.name} plays in an environment, which shows its own prompts; "
                "leave it out"
            ]
        )
    if config.split not in task.splits:
        raise ConfigError(
            [
                f"task.examples.split: task {task.name} has no split {config.split!r}; it has {', '.join(task.splits)}"
            ]
        )
    add = Examples.draw(task, load(config.split), config)
    if not isinstance(samples, RowSamples):
        return LazySamples(lambda k: add.to(samples[k]), range(len(samples)))
    make = samples.make

    def make_with_examples(row: Row, options: Any) -> Sample:
        return add.to(make(row, options))

    return samples.made_by(make_with_examples)


@dataclass(frozen=True)
class Examples:
    """Examples by the id of their sample; one more than are shown, in place of a question that is among them."""

    drawn: tuple[tuple[str, Example], ...]

    @staticmethod
    def draw(task: Task, samples: Sequence[Sample], config: ExamplesConfig) -> Examples:
        """Examples drawn with the config's seed. Raises ConfigError where there are too few samples, or their prompts are plain
        text."""
        if len(samples) <= config.count:
            raise ConfigError(
                [
                    f"task.examples.count={config.count}: the {config.split} split of task {task.name} has "
                    f"{len(samples)} samples, and needs {config.count + 1}"
                ]
            )
        order = random.Random(f"examples {config.seed}")
        chosen = [samples[k] for k in order.sample(range(len(samples)), config.count + 1)]
        if any(message.role == "plain" for sample in chosen for message in sample.messages):
            raise ConfigError(
                [
                    f"task.examples.count={config.count}: the prompts of task {task.name} are plain text, which has no turns; "
                    "choose options with a chat template"
                ]
            )
        return Examples(tuple((sample.id, _example(task, sample)) for sample in chosen))

    def to(self, sample: Sample) -> Sample:
        """The sample with the examples, of which it is none."""
        others = [example for name, example in self.drawn if name != sample.id]
        return replace(sample, examples=tuple(others[: len(self.drawn) - 1]))


def _example(task: Task, sample: Sample) -> Example:
    """The sample without the system messages that begin it, and its gold answer."""
    answer = Message(role="assistant", content=(gold_text(task, sample),))
    opening = sample.opening
    return Example(
        messages=(*sample.messages[len(opening) :], answer),
        images=sample.images[count_slots(opening, IMAGE) :],
        videos=sample.videos[count_slots(opening, VIDEO) :],
    )
