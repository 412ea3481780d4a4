"""A task bound to the options, the split and the rewards that a config chose. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from pydantic import TypeAdapter

from vlrft.config import EnvConfig, RewardConfig, TaskConfig
from vlrft.data import LazySamples, RowSamples
from vlrft.envs import EnvRegistry, Host
from vlrft.plugins.find import find_reward, find_task, reward_reference, reward_title
from vlrft.rollout.gold import gold_turns, walk
from vlrft.schema import DataError, Record, RecordCompleter, Resize, Sample, Task
from vlrft.schema.errors import ConfigError
from vlrft.scoring.graders import STRICT, Graders
from vlrft.scoring.rewards import TIME_LIMIT, WeightedReward
from vlrft.workers.worker import Workers

CORPUS_PLAYS = 32  # whose texts a tokenizer is made of; each takes an environment


@dataclass(frozen=True, kw_only=True)
class LoadedTask:
    """What playing and grading a task takes."""

    task: Task
    samples: Sequence[Sample]
    rewards: tuple[WeightedReward, ...]
    resize: Resize | None = None
    complete: RecordCompleter | None = None
    env: EnvConfig = field(default_factory=EnvConfig)
    reference: str = ""  # that other processes find the task by
    hosts: EnvRegistry = field(default_factory=EnvRegistry)  # those of the run

    @cached_property
    def graders(self) -> Graders:
        return Graders.of(self.task)

    @cached_property
    def host(self) -> Host:
        """Where its environments are; without one of its own, a single turn."""
        return self.hosts.host_for(
            self.task,
            workers=self.env.workers,
            time_limit=self.env.time_limit,
            reference=self.reference or self.task.name,
        )

    def close(self) -> None:
        """Ends the processes of its rewards and its environments."""
        self.hosts.shutdown()
        for reward in self.rewards:
            if reward.workers is not None:
                reward.workers.close()

    def head(self, limit: int | None) -> Sequence[Sample]:
        """The first `limit` samples; all when None. Each is made when it is asked for."""
        return LazySamples(self.samples.__getitem__, range(len(self.samples))[:limit])

    def completed(self, samples: Sequence[Sample], records: Sequence[Record]) -> Sequence[Record]:
        """The records as they are measured and kept."""
        return self.complete(samples, records) if self.complete is not None else records

    def refuse_other_resize(self, own: Resize | None) -> None:
        """Raises ConfigError where answers are in pixels of images as another processor than the policy's resizes them;
        `own`: how that one does, None where it does otherwise."""
        if self.resize is None or self.resize == own:
            return
        raise ConfigError(
            [
                f"task {self.task.name}: its answers are in pixels of images resized to {self.resize}, but the "
                f"policy's processor resizes to {own or 'sizes of another kind'}; set policy.min_pixels and "
                "policy.max_pixels, or the task's options, to the same"
            ]
        )

    def refuse_unreadable_gold_answers(self) -> None:
        """Raises DataError for gold answers that the strict grader cannot read, before anything is paid for: the data of
        a pack that reads rows are looked at whole."""
        if not isinstance(self.samples, RowSamples):
            return
        mistakes: list[str] = []
        unplayed = dict.fromkeys(self.task.env_scores, 0.0)
        for sample in self.samples.without_images():
            try:
                self.graders.grade(STRICT, "", sample, unplayed)
            except DataError as e:
                mistakes.append(str(e))
        if mistakes:
            raise DataError(
                f"task {self.task.name}: {len(mistakes)} of {len(self.samples)} gold answers cannot be read, the first: "
                f"{mistakes[0]}; vlrft data prepare lists them and leaves them out"
            )

    def text(self, samples: int) -> Iterator[str]:
        """What the first samples say and what their gold answers are, for the tokenizer of a built policy; of a task with
        an environment, what is said in gold's plays of a few of them."""
        few = samples if self.task.env is None else min(samples, CORPUS_PLAYS)
        for sample in islice(iter(self.samples), few):
            said = gold_turns(self.task, sample)
            for seen in walk(sample, said, self.host)[0]:
                for message in seen.messages:
                    yield from (part for part in message.content if isinstance(part, str))
            yield from said


def load_task(config: TaskConfig, split: str) -> LoadedTask:
    """The task's samples of one split. Raises DataError when there are none, ConfigError for a wrong split."""
    task = find_task(config.name)
    if split not in task.splits:
        raise ConfigError(
            [f"task {task.name} has no split {split!r}; it has {', '.join(task.splits)}"]
        )
    options = TypeAdapter(task.options).validate_python(dict(config.options))
    samples = task.load(split, options)
    if not len(samples):
        raise DataError(f"task {task.name}: the {split} split has no samples; check task.options")
    rewards = load_rewards(task.rewards if config.rewards is None else config.rewards)
    return LoadedTask(
        task=task,
        samples=samples,
        rewards=rewards,
        resize=task.resize(options) if task.resize is not None else None,
        complete=task.complete(options) if task.complete is not None else None,
        env=config.env,
        reference=config.name,
    )


def load_rewards(chosen: Mapping[str, float | RewardConfig]) -> tuple[WeightedReward, ...]:
    """The rewards with their names and weights. Raises PluginError for an unknown one, ConfigError for two of one name."""
    found = tuple(_named(name, config) for name, config in chosen.items())
    names = [reward.name for reward in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            [f"task.rewards: two rewards are named {n}; rename one of the functions" for n in twice]
        )
    return found


def _named(name: str, config: float | RewardConfig) -> WeightedReward:
    if not isinstance(config, RewardConfig):
        config = RewardConfig(weight=config)
    return WeightedReward(
        name=reward_title(name),
        weight=config.weight,
        function=find_reward(name),
        reference=reward_reference(name),
        workers=Workers(config.workers) if config.workers else None,
        time_limit=config.time_limit or TIME_LIMIT,
        on_error=config.on_error,
        strings=None if config.completions is None else config.completions == "text",
    )
