"""A config -> the memory plan of each of its stages, for one rank."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from vlrft.algorithms import Algorithm, find_algorithm
from vlrft.config import Config, PolicyConfig, StageConfig
from vlrft.engine import find_engine, rank_memory
from vlrft.evaluation.evaluate import chunk_size
from vlrft.memory.phases import checkpoint_size, plan
from vlrft.memory.plan import MemoryPlan
from vlrft.memory.shapes import ModelShape, PromptSize
from vlrft.memory.workload import RolloutWork, StepWork
from vlrft.policy.families import vision_family
from vlrft.rollout.engines import RolloutMemoryModel, find_rollout_engine
from vlrft.rollout.task import LoadedTask
from vlrft.trainer.memory_plan.model_shapes import load_model_shape, make_meta_model
from vlrft.trainer.memory_plan.prompt_lengths import (
    TaskPrompts,
    longest_prompt,
    make_chat,
    make_plan_tokenizer,
    measure_prompts,
)


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """The memory plan of a stage."""

    name: str
    plan: MemoryPlan
    origin: str  # where the prompt lengths come from
    checkpoint: int  # bytes of each checkpoint
    engine_modelled: bool = True
    """False: the train engine has no memory model, and the plan is that of an engine that shards nothing."""
    sampling_modelled: bool = True
    """False: the rollout engine has no memory model, and rollout and evaluation are left out."""


@dataclass(frozen=True, kw_only=True)
class RunTasks:
    """Tasks that a run has loaded: of each stage, and of its evaluations (None: it has none)."""

    stages: tuple[LoadedTask, ...]
    evaluation: LoadedTask | None


class Planner:
    """Plans one rank of a run. The tokenizer and the prompts, which no setting changes, are read once."""

    def __init__(
        self, config: Config, device: str, ranks: int = 1, tasks: RunTasks | None = None
    ) -> None:
        """`device`: where each of the ranks trains. `tasks`: those of a run; None: they are loaded here, nothing is
        downloaded. Raises ConfigError for a model whose config is not available."""
        self.device = device
        self.ranks = ranks
        self.tasks = tasks
        self._shapes: dict[PolicyConfig, ModelShape] = {}
        self._resized: dict[tuple[int | None, ...], Planner] = {}
        self.tokenizer: Any = None
        loaded = [None] * len(config.stages) if tasks is None else list(tasks.stages)
        if config.policy.build is not None:
            self.tokenizer = make_plan_tokenizer(config.policy, config.stages[0], loaded[0])
        self.bounds = _pixel_bounds(config.policy)
        model = make_meta_model(config.policy, self.tokenizer)
        vision = vision_family(model)
        chat = make_chat(config, self.tokenizer, vision, model)
        self.model = self._shape(config.policy, model)
        self.stages = [
            measure_prompts(
                s.task,
                "train",
                chat,
                longest_prompt(config.policy, s.rollout, vision),
                task,
            )
            for s, task in zip(config.stages, loaded, strict=True)
        ]
        self.evaluation: TaskPrompts | None = None
        if tasks is None or tasks.evaluation is not None:
            limit = longest_prompt(config.policy, config.rollout, vision)
            task = None if tasks is None else tasks.evaluation
            self.evaluation = measure_prompts(config.task, config.eval.split, chat, limit, task)

    def for_ranks(self, ranks: int) -> Planner:
        """The same planner, for one of as many ranks."""
        other = copy(self)
        other.ranks, other._resized = ranks, {}
        return other

    def _shape(self, policy: PolicyConfig, model: Any = None) -> ModelShape:
        """`model`: the policy's, made by `make_meta_model`, if it is there; it is changed."""
        if policy not in self._shapes:
            self._shapes[policy] = load_model_shape(
                policy, tokenizer=self.tokenizer, device=self.device, model=model
            )
        return self._shapes[policy]

    def plans(self, config: Config) -> list[StagePlan]:
        """The plan of every stage. `config` may differ from the planner's own in its settings, not in model and tasks."""
        bounds = _pixel_bounds(config.policy)
        if bounds != self.bounds:  # other prompts
            if bounds not in self._resized:
                self._resized[bounds] = Planner(config, self.device, self.ranks, self.tasks)
            return self._resized[bounds].plans(config)
        model = self._shape(config.policy)
        engine = find_engine(config.engine)
        rollout_engine = find_rollout_engine(config.rollout.engine)
        rollout_memory = None
        if isinstance(rollout_engine, RolloutMemoryModel):
            rollout_memory = rollout_engine.rollout_memory
        evaluation = None
        if self.evaluation is not None:
            evaluation = evaluation_work(config, self.evaluation, self.ranks)
        background = config.save.background
        plans: list[StagePlan] = []
        for stage, prompts in zip(config.stages, self.stages, strict=True):
            work = replace(
                step_work(config, stage, prompts, self.ranks),
                evaluation=evaluation,
                background=model.gpu if background is None else background,
            )
            rank, engine_modelled = rank_memory(engine, stage.update, model, self.ranks)
            plans.append(
                StagePlan(
                    name=stage.name or "",
                    plan=plan(model, work, rank, rollout_memory),
                    origin=prompts.origin,
                    checkpoint=checkpoint_size(model, work, rank),
                    engine_modelled=engine_modelled,
                    sampling_modelled=rollout_memory is not None,
                )
            )
        return plans


def _pixel_bounds(policy: PolicyConfig) -> tuple[int | None, ...]:
    return policy.min_pixels, policy.max_pixels, policy.max_prompt_pixels


def peak_bytes(plans: Sequence[StagePlan]) -> int:
    """The peak of all stages."""
    return max(stage.plan.peak.total for stage in plans)


def step_work(config: Config, stage: StageConfig, prompts: TaskPrompts, ranks: int) -> StepWork:
    """One rank's share of a step: every group is trained on, every completion as long as allowed."""
    assert stage.algorithm is not None
    algorithm = find_algorithm(stage.algorithm)
    rollout = stage.rollout
    played, answers = sampled_at_once(prompts, stage.prompts_per_step, rollout.group_size, ranks)
    sampling = RolloutWork(
        prompts=played,
        answers=answers,
        tokens=rollout.max_tokens,
        truncated=rollout.top_p < 1 or rollout.top_k > 0,
        max_rows=rollout.max_rows,
        max_cache_tokens=rollout.max_cache_tokens,
        episodes=prompts.episodes,
    )
    sampled = algorithm.answers == "sampled"
    rows = prompts.largest_shard(stage.prompts_per_step, ranks)
    trained, group = prompts.by_context(rows, most_rollouts(algorithm, rollout.group_size))
    return StepWork(
        prompts=trained,
        group=group,
        tokens=rollout.max_tokens,
        micro_tokens=stage.update.max_tokens_per_micro_batch,
        updates=stage.update.updates_per_batch,
        reference=algorithm.needs.ref_logprobs,
        averaged=algorithm.reference.update == "ema",
        rollout=sampling if sampled else None,
        self_check=config.self_check,
        prefetch=config.prefetch_threads > 0,
        distinct_images=prompts.samples,
    )


def most_rollouts(algorithm: Algorithm, group_size: int) -> int:
    """The most rollouts of a group that are trained on: sampled ones, stored ones and a gold answer that join them."""
    if algorithm.answers != "sampled":
        return 1
    stored = 0 if algorithm.replay is None else algorithm.replay.add
    gold = algorithm.inject is not None and not algorithm.inject.replace
    return group_size + stored + gold


def evaluation_work(config: Config, prompts: TaskPrompts, ranks: int) -> RolloutWork:
    """One rank's share of the samples that an evaluation plays at once."""
    decoding, rollout = config.eval, config.rollout
    chunk = chunk_size(config.rollout, decoding)
    count = min(chunk, decoding.limit or chunk, prompts.samples or chunk)
    played, answers = sampled_at_once(prompts, count, decoding.answers, ranks)
    return RolloutWork(
        prompts=played,
        answers=answers,
        tokens=decoding.max_tokens or rollout.max_tokens,
        greedy=decoding.temperature == 0,
        truncated=decoding.top_p < 1,
        max_rows=rollout.max_rows,
        max_cache_tokens=rollout.max_cache_tokens,
        episodes=prompts.episodes,
    )


def sampled_at_once(
    prompts: TaskPrompts, count: int, answers: int, ranks: int
) -> tuple[tuple[PromptSize, ...], int]:
    """The prompts of one rank's share of `count` samples, one turn of each episode, and the completions of each prompt."""
    return prompts.by_context(replace(prompts, turns=1).largest_shard(count, ranks), answers)
