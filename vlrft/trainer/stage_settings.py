"""The stages of a config: tasks, algorithms and steps, checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlrft.algorithms import Algorithm, find_algorithm
from vlrft.config import Config, StageConfig, TaskConfig
from vlrft.config.configured import configured_task
from vlrft.objectives import Advising
from vlrft.rollout.engines import engine_signals, find_rollout_engine
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema.errors import ConfigError
from vlrft.schema.ranges import MAX_INTEGER
from vlrft.selection.prompt_sampler import find_prompt_strategy
from vlrft.selection.prompt_strategies import PromptStrategy
from vlrft.trainer.ahead.misfits import find_misfits
from vlrft.trainer.composition import (
    find_idle_selectors,
    find_missing_notes,
    find_small_groups,
    find_unfit_parts,
    find_unknown_components,
    find_unused_reference_rules,
)


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """A stage as the config describes it. Its steps are `first` + 1 to `last`."""

    name: str
    config: StageConfig
    algorithm: Algorithm
    loaded: LoadedTask
    strategy: PromptStrategy
    first: int
    last: int

    @property
    def temperature(self) -> float:
        """The temperature of the trained distribution: that of sampling, or 1 for demonstrations."""
        return self.config.rollout.temperature if self.algorithm.answers == "sampled" else 1.0

    @property
    def micro_batch_tokens(self) -> int:
        """The maximum number of tokens of a micro-batch."""
        return self.config.update.max_tokens_per_micro_batch

    @property
    def ahead(self) -> int:
        """The steps that sampling may be ahead of training; 0 for demonstrations, which are not sampled."""
        return self.config.rollout.ahead if self.algorithm.answers == "sampled" else 0

    def algorithm_at(self, step: int) -> Algorithm:
        """The algorithm with its scheduled settings at this step."""
        return self.algorithm.at(self.progress(step))

    def progress(self, step: int) -> float:
        """The share of the stage's steps that are done before this one, in [0, 1)."""
        return (step - 1 - self.first) / (self.last - self.first)


def resolve_stages(config: Config) -> tuple[StageSettings, ...]:
    """The settings of all stages, their tasks loaded.

    Raises ConfigError with every mistake in the algorithms and strategies of all stages, before any task is loaded, and
    for an algorithm that does not fit its task.
    """
    chosen = find_choices(config)
    stages: list[StageSettings] = []
    mistakes: list[str] = []
    done = 0
    for i, (stage, (algorithm, strategy)) in enumerate(zip(config.stages, chosen, strict=True)):
        assert stage.name is not None
        loaded = load_task(stage.task, "train")
        if algorithm.replay is not None and loaded.task.env is not None:
            mistakes.append(
                f"stages.{i}.algorithm.replay: rollouts of an environment cannot be replayed, and task "
                f"{loaded.task.name} has one; remove replay"
            )
        if algorithm.inject is not None and loaded.task.env is not None:
            mistakes.append(
                f"stages.{i}.algorithm.inject: gold answers join groups of one turn, and task {loaded.task.name} has an "
                "environment; remove inject"
            )
        mistakes += find_unknown_components(algorithm, loaded, f"stages.{i}")
        steps = count_steps(stage, len(loaded.samples))
        stages.append(
            StageSettings(
                name=stage.name,
                config=replace(stage, steps=steps, epochs=None),
                algorithm=algorithm,
                loaded=loaded,
                strategy=strategy,
                first=done,
                last=done + steps,
            )
        )
        done += steps
    if mistakes:
        raise ConfigError(mistakes)
    return tuple(stages)


def find_choices(config: Config) -> list[tuple[Algorithm, PromptStrategy]]:
    """The algorithm and the prompt strategy of each stage, without its data. Raises ConfigError with all mistakes."""
    mistakes: list[str] = []
    chosen: list[tuple[Algorithm, PromptStrategy]] = []
    for i, stage in enumerate(config.stages):
        assert stage.algorithm is not None
        at = "" if stage.algorithm == config.algorithm else f"stages.{i}."
        try:
            algorithm = find_algorithm(stage.algorithm)
            mistakes += _misfits(algorithm, stage, config, f"stages.{i}")
        except ConfigError as e:
            mistakes += [f"{at}{mistake}" for mistake in e.mistakes]
            continue
        try:
            strategy = find_prompt_strategy(stage.prompts, f"stages.{i}.prompts")
            mistakes += find_misfits(algorithm, strategy, stage, config, f"stages.{i}")
            chosen.append((algorithm, strategy))
            name = str(stage.prompts["name"] if isinstance(stage.prompts, dict) else stage.prompts)
            mistakes += find_missing_notes(strategy, [a for a, _ in chosen], name, f"stages.{i}")
        except ConfigError as e:
            mistakes += e.mistakes
    if config.permute_rewards and chosen and all(a.answers != "sampled" for a, _ in chosen):
        mistakes.append(
            "permute_rewards: true has no effect, as every stage learns gold answers; leave it out"
        )
    if mistakes:
        raise ConfigError(list(dict.fromkeys(mistakes)))
    return chosen


def _misfits(algorithm: Algorithm, stage: StageConfig, config: Config, at: str) -> list[str]:
    """Settings of the stage that the algorithm does not work with."""
    mistakes: list[str] = []
    updates, groups = stage.update.updates_per_batch, stage.prompts_per_step
    if updates > groups:
        mistakes.append(
            f"{at}.update.updates_per_batch: {updates}, but a step has {groups} groups, one for each of its prompts: use at "
            f"most {groups}, or a larger prompts_per_step"
        )
    mistakes += find_small_groups(algorithm, stage.rollout.group_size, at)
    mistakes += find_idle_selectors(algorithm, stage.rollout.group_size, at)
    least = algorithm.estimator.min_tokens
    if stage.rollout.max_tokens < least:
        mistakes.append(
            f"{at}.rollout.max_tokens: {stage.rollout.max_tokens}, but {algorithm.name} penalises the last {least} "
            f"tokens of a completion: use at least {least}, or a smaller buffer"
        )
    mistakes += find_unfit_parts(algorithm, at)
    mistakes += _misfits_of_injection(algorithm, stage, at)
    mistakes += _misfits_of_memory(algorithm, at)
    kind = find_rollout_engine(config.rollout.engine)
    if missing := sorted(set(algorithm.estimator.sampled_signals) - engine_signals(kind)):
        mistakes.append(
            f"{at}.algorithm.advantage: it reads the {missing[0]} of sampled tokens, which the rollout engine "
            f"{type(kind).__name__.lower()} does not give; use rollout.engine=hf"
        )
    if algorithm.answers == "sampled" and not _is_rewarded(stage.task):
        mistakes.append(
            f"{at}.task.rewards: no reward with a weight is left, and {algorithm.name} learns from nothing else; give "
            "one, such as task.rewards.format=1.0"
        )
    mistakes += find_unused_reference_rules(algorithm, at)
    if algorithm.reference.update != "never" and config.policy.has_adapters:
        mistakes.append(
            f"{at}.algorithm.reference.update: {algorithm.reference.update}, but with LoRA adapters the "
            "reference is the model without its adapters: use never"
        )
    return mistakes


def _misfits_of_injection(algorithm: Algorithm, stage: StageConfig, at: str) -> list[str]:
    """Settings that do not go with gold answers among the rollouts."""
    rule = algorithm.inject
    if rule is None:
        return []
    where, mistakes = f"{at}.algorithm.inject", list[str]()
    if algorithm.answers != "sampled":
        mistakes.append(f"{where}: {algorithm.name} trains on gold answers alone; remove inject")
    if rule.replace and stage.rollout.group_size < 2:
        mistakes.append(
            f"{where}.replace: the gold answer would replace the only rollout of a group; use replace: false, or "
            "rollout.group_size=2"
        )
    if algorithm.replay is not None:
        mistakes.append(
            f"{where}: replay stores rollouts with the log-probs that they were sampled with, and gold answers have none; "
            "remove replay or inject"
        )
    if unsampled := sorted(algorithm.estimator.signals - {"id"}):
        mistakes.append(
            f"{where}: algorithm.advantage reads the {unsampled[0]} of sampled tokens, and gold answers were not sampled; "
            "remove inject, or that step"
        )
    return mistakes


def _misfits_of_memory(algorithm: Algorithm, at: str) -> list[str]:
    """Rollouts that the policy has not sampled in this step, where an advantage step notes a group's rewards."""
    added = {"inject": algorithm.inject, "replay": algorithm.replay}
    return [
        f"{at}.algorithm.{name}: a step of algorithm.advantage notes the rewards of each visit of a prompt, and these "
        f"would count others than the policy's own; remove {name}, or that step"
        for name, part in added.items()
        if part is not None and algorithm.estimator.remembers
    ]


def _is_rewarded(config: TaskConfig) -> bool:
    """Whether the task has an environment or a reward with a weight."""
    task, _ = configured_task(config)
    if task.env is not None:
        return True
    if config.rewards is None:
        return any(task.rewards.values())
    return any(reward.weight for reward in config.rewards.values())


def count_steps(stage: StageConfig, samples: int) -> int:
    """The number of the stage's steps, computed from its epochs where it sets those. Raises ConfigError for too many."""
    if stage.steps is not None:
        return stage.steps
    assert stage.epochs is not None
    steps = max(1, round(stage.epochs * samples / stage.prompts_per_step))
    if steps > MAX_INTEGER:
        raise ConfigError(
            [f"stages: {stage.name}: {stage.epochs:g} epochs are more than {MAX_INTEGER} steps"]
        )
    return steps


def advice(stages: Sequence[StageSettings]) -> list[str]:
    """Advice of the stages' objectives about other settings of their stages, one line each."""
    advised: list[str] = []
    for stage in stages:
        rollout, objective = stage.config.rollout, stage.algorithm.objective
        if isinstance(objective, Advising):
            lines = objective.advice(
                updates_per_batch=stage.config.update.updates_per_batch,
                full_support=rollout.top_p == 1.0 and rollout.top_k == 0,
            )
            advised += [f"{stage.name}: {line}" for line in lines]
    return advised
