"""A task loaded with the options, the split and the rewards of a config. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from vlrft.config import EnvConfig, RewardConfig, TaskConfig
from vlrft.config.configured import configured_task
from vlrft.data import Dataset, LazySamples, RowSamples
from vlrft.data.dataset import OnBad
from vlrft.envs import EnvRegistry, Host
from vlrft.plugins.attribution import attributed
from vlrft.plugins.find import find_reward, reward_reference, reward_title
from vlrft.rollout.examples import with_examples
from vlrft.rollout.gold import gold_turns, walk
from vlrft.schema import Record, RecordCompleter, Resize, Sample, Task
from vlrft.schema.errors import ConfigError, NoRowsError
from vlrft.scoring.graders import Graders
from vlrft.scoring.weighted import TIME_LIMIT, WeightedReward
from vlrft.vision.boxes import is_boxes
from vlrft.workers.memory import default_limit
from vlrft.workers.worker import Workers

CORPUS_SAMPLES = (
    256  # enough text for the tokenizer of a new policy to learn every phrase of a task
)
CORPUS_EPISODES = 32  # for a task with environments; few, since each starts one


@dataclass(frozen=True, kw_only=True)
class LoadedTask:
    """A task with its samples, rewards, environments and graders: all that is needed to play and grade it."""

    task: Task
    samples: Sequence[Sample]
    rewards: tuple[WeightedReward, ...]
    resize: Resize | None = None
    complete: RecordCompleter | None = None
    box_unit: str | None = None  # of the boxes that it asks for: the value of its option `boxes`
    env: EnvConfig = field(default_factory=EnvConfig)
    on_bad: OnBad = "error"  # rows that cannot be used
    reference: str = ""  # the name or path by which worker processes load the task
    hosts: EnvRegistry = field(default_factory=EnvRegistry)  # of the run

    @cached_property
    def graders(self) -> Graders:
        return Graders.of(self.task)

    @cached_property
    def host(self) -> Host:
        """The host of its environments. A task without an environment has episodes of a single turn."""
        return self.hosts.host_for(
            self.task,
            workers=self.env.workers,
            time_limit=self.env.time_limit,
            memory_gb=self.env.memory_gb,
            reference=self.reference or self.task.name,
        )

    def close(self) -> None:
        """Ends the worker processes of its rewards and environments."""
        self.hosts.shutdown()
        for reward in self.rewards:
            if reward.workers is not None:
                reward.workers.close()

    def head(self, limit: int | None) -> Sequence[Sample]:
        """The first `limit` samples; None: all. Each sample is made when it is read."""
        return LazySamples(self.samples.__getitem__, range(len(self.samples))[:limit])

    def complete_records(
        self, samples: Sequence[Sample], records: Sequence[Record]
    ) -> Sequence[Record]:
        """The records as the task completes them, before metrics are computed and the records are written."""
        return self.complete(samples, records) if self.complete is not None else records

    def refuse_other_resize(
        self, resize: Resize | None, max_prompt_pixels: int | None = None
    ) -> None:
        """Raises ConfigError where answers are in pixels of resized images, and the policy's image processor resizes
        differently. `resize`: that of the image processor, None for a processor of another kind. `max_prompt_pixels`: of all
        images of a prompt, None for no such bound."""
        if self.resize is not None and max_prompt_pixels is not None:
            raise ConfigError(
                [
                    f"task {self.task.name}: its answers are in pixels of resized images, whose size would depend on the number of "
                    f"images with policy.max_prompt_pixels={max_prompt_pixels}; use policy.max_pixels instead"
                ]
            )
        if self.resize is None or self.resize == resize:
            return
        raise ConfigError(
            [
                f"task {self.task.name}: its answers are in pixels of images resized to {self.resize}, but the "
                f"policy's processor resizes to {resize or 'sizes of another kind'}; set policy.min_pixels and "
                "policy.max_pixels, or the task's options, to the same, or ask for boxes in thousandths"
            ]
        )

    def box_warning(self, unit: str | None) -> str | None:
        """A warning where it asks for boxes in another unit than released models of the policy's family write; None
        elsewhere. `unit`: that of the family."""
        if self.box_unit is None or unit is None or unit == self.box_unit:
            return None
        samples = self.samples
        first = next(iter(samples.without_images() if isinstance(samples, RowSamples) else samples))
        if not is_boxes(first.answer):
            return None
        return (
            f"task {self.task.name} asks for boxes with options.boxes={self.box_unit}, but models of this family write "
            f"them as options.boxes={unit} does, unless they were trained otherwise"
        )

    def text(self, samples: int = CORPUS_SAMPLES) -> Iterator[str]:
        """Texts of the first samples and of their gold answers, from which the tokenizer of a new policy is built. In an
        environment: the observations and turns of a few gold answers."""
        few = samples if self.task.env is None else min(samples, CORPUS_EPISODES)
        for sample in islice(iter(self.samples), few):
            turns = gold_turns(self.task, sample)
            for observation in walk(sample, turns, self.host)[0]:
                for message in observation.messages:
                    yield from (part for part in message.content if isinstance(part, str))
            yield from turns


def load_task(config: TaskConfig, split: str) -> LoadedTask:
    """Loads one split of the task that a config names. Raises NoRowsError where the split has no samples, ConfigError for an
    unknown split."""
    task, options = configured_task(config)
    if split not in task.splits:
        raise ConfigError(
            [f"task {task.name} has no split {split!r}; it has {', '.join(task.splits)}"]
        )
    own = _load_samples(task, options, split, config.on_bad)

    def load(name: str) -> Sequence[Sample]:
        return own if name == split else _load_samples(task, options, name, config.on_bad)

    samples = with_examples(task, own, config.examples, load)
    rewards = load_rewards(task.rewards if config.rewards is None else config.rewards)
    return LoadedTask(
        task=task,
        samples=samples,
        rewards=rewards,
        resize=task.resize(options) if task.resize is not None else None,
        complete=task.complete(options) if task.complete is not None else None,
        box_unit=getattr(options, "boxes", None),
        env=config.env,
        on_bad=config.on_bad,
        reference=config.name,
    )


def _load_samples(task: Task, options: Any, split: str, on_bad: OnBad) -> Sequence[Sample]:
    """The samples of a split. Raises NoRowsError where it has none."""
    with attributed(f"task {task.name}: its `load` of the {split} split"):
        if isinstance(task.load, Dataset):
            samples: Sequence[Sample] = task.load(split, options, on_bad=on_bad, task=task.name)
        else:
            samples = task.load(split, options)
        count = len(samples)
    if not count:
        raise NoRowsError(f"task {task.name}: the {split} split has no samples; check task.options")
    return samples


def load_rewards(configs: Mapping[str, float | RewardConfig]) -> tuple[WeightedReward, ...]:
    """The reward functions of a config's `task.rewards`, with their names and weights.

    Raises PluginError for an unknown reward, ConfigError for two with the same name.
    """
    rewards = tuple(_load_reward(reference, config) for reference, config in configs.items())
    names = [reward.name for reward in rewards]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        mistake = "task.rewards: two rewards are named {}; rename one of the functions"
        raise ConfigError([mistake.format(name) for name in duplicates])
    return rewards


def _load_reward(reference: str, config: float | RewardConfig) -> WeightedReward:
    if not isinstance(config, RewardConfig):
        config = RewardConfig(weight=config)
    reward = WeightedReward(
        name=reward_title(reference),
        weight=config.weight,
        function=find_reward(reference),
        reference=reward_reference(reference),
        workers=_make_workers(config) if config.workers else None,
        time_limit=config.time_limit or (TIME_LIMIT if config.workers else None),
        on_error=config.on_error,
        retries=config.retries,
        strings=None if config.completions is None else config.completions == "text",
    )
    if reward.time_limit and not reward.workers and not reward.signature.asynchronous:
        mistake = (
            "a time_limit needs workers: 1 or more, or an `async def`; nothing else can be cut off"
        )
        raise ConfigError([f"task.rewards.{reference}: {mistake}"])
    if config.completions is not None and reward.signature.scope != "columns":
        mistake = "completions has no effect, as only a function in TRL's form gets chat messages; leave it out"
        raise ConfigError([f"task.rewards.{reference}: {mistake}"])
    return reward


def _make_workers(config: RewardConfig) -> Workers:
    """The workers of a reward; their processes start with their first calls."""
    memory = default_limit() / 2**30 if config.memory_gb is None else config.memory_gb
    return Workers(config.workers, memory_gb=memory)
