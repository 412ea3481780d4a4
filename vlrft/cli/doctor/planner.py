"""A config -> what each of its stages holds at its fullest, and what would make it fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from vlrft.algorithms import find_algorithm
from vlrft.cli.doctor.model_shapes import meta_model, shapes
from vlrft.cli.doctor.prompt_lengths import (
    TaskPrompts,
    bounds,
    chat_of,
    prompts_of,
    stand_in_tokenizer,
)
from vlrft.config import Config, LoraConfig, PolicyConfig, RolloutConfig, StageConfig, UpdateConfig
from vlrft.engine import find_engine, planned_choices, rank_memory
from vlrft.evaluation.evaluate import EVAL_CHUNK
from vlrft.memory.phases import plan
from vlrft.memory.plan import MemoryPlan
from vlrft.memory.shapes import ModelShape
from vlrft.memory.workload import RolloutWork, StepWork
from vlrft.policy.families import vision_family
from vlrft.rollout.engines import RolloutMemoryModel, find_rollout_engine


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """The memory plan of a stage."""

    name: str
    plan: MemoryPlan
    origin: str  # where the prompt lengths come from
    engine_modelled: bool = True
    """False: the train engine has no memory model, and the plan is that of an engine that shards nothing."""
    sampling_modelled: bool = True
    """False: the rollout engine has no memory model, and rollout and evaluation are left out."""


class Planner:
    """Plans one rank of a run. The tokenizer and the prompts, which no setting changes, are read once."""

    def __init__(self, config: Config, device: str, ranks: int = 1) -> None:
        """`device`: where each of the ranks trains. Raises ConfigError for a model whose config is not at hand."""
        self.device = device
        self.ranks = ranks
        self.tokenizer: Any = None
        if config.policy.build is not None:
            self.tokenizer = stand_in_tokenizer(config.policy, config.stages[0])
        self.model = self._shapes(config.policy)
        vision = vision_family(meta_model(config.policy, self.tokenizer))
        chat = chat_of(config, self.tokenizer, vision)
        self.stages = [
            prompts_of(s.task, "train", chat, bounds(config, s.rollout.max_prompt_tokens, vision))
            for s in config.stages
        ]
        limit = bounds(config, config.rollout.max_prompt_tokens, vision)
        self.evaluation = prompts_of(config.task, config.eval.split, chat, limit)

    def _shapes(self, policy: PolicyConfig) -> ModelShape:
        return shapes(policy, tokenizer=self.tokenizer, device=self.device)

    def plans(self, config: Config) -> list[StagePlan]:
        """The plan of every stage. `config` may differ from the planner's own in its settings, not in model and tasks."""
        model = self._shapes(config.policy)
        engine = find_engine(config.engine)
        rollout_engine = find_rollout_engine(config.rollout.engine)
        rollout_memory = None
        if isinstance(rollout_engine, RolloutMemoryModel):
            rollout_memory = rollout_engine.rollout_memory
        evaluation = evaluation_work(config, self.evaluation, self.ranks)
        plans: list[StagePlan] = []
        for stage, prompts in zip(config.stages, self.stages, strict=True):
            work = replace(
                step_work(config, stage, prompts, self.ranks),
                evaluation=evaluation,
            )
            rank, engine_modelled = rank_memory(engine, stage.update, model, self.ranks)
            plans.append(
                StagePlan(
                    name=stage.name or "",
                    plan=plan(model, work, rank, rollout_memory),
                    origin=prompts.origin,
                    engine_modelled=engine_modelled,
                    sampling_modelled=rollout_memory is not None,
                )
            )
        return plans


def step_work(config: Config, stage: StageConfig, prompts: TaskPrompts, ranks: int) -> StepWork:
    """One rank's share of a step: every group is trained on, every completion as long as allowed."""
    assert stage.algorithm is not None
    algorithm = find_algorithm(stage.algorithm)
    rollout, sizes = stage.rollout, prompts.dealt(stage.prompts_per_step, ranks)
    sampling = RolloutWork(
        prompts=sizes[: math.ceil(stage.prompts_per_step / ranks)],
        answers=rollout.group_size,
        tokens=rollout.max_tokens,
        truncated=rollout.top_p < 1 or rollout.top_k > 0,
        max_rows=rollout.max_rows,
        max_cache_tokens=rollout.max_cache_tokens,
    )
    sampled = algorithm.answers == "sampled"
    return StepWork(
        prompts=sizes,
        group=rollout.group_size if sampled else 1,
        tokens=rollout.max_tokens,
        micro_tokens=stage.update.max_tokens_per_micro_batch,
        updates=stage.update.updates_per_batch,
        reference=algorithm.needs.ref_logprobs,
        rollout=sampling if sampled else None,
        self_check=config.self_check,
        prefetch=config.prefetch_threads > 0,
        distinct_images=prompts.samples,
    )


def evaluation_work(config: Config, prompts: TaskPrompts, ranks: int) -> RolloutWork:
    """One rank's share of the samples that an evaluation plays at once."""
    decoding, rollout = config.eval, config.rollout
    count = min(EVAL_CHUNK, decoding.limit or EVAL_CHUNK, prompts.samples or EVAL_CHUNK)
    return RolloutWork(
        prompts=replace(prompts, turns=1).dealt(count, ranks),
        answers=decoding.answers,
        tokens=decoding.max_tokens or rollout.max_tokens,
        greedy=decoding.temperature == 0,
        truncated=decoding.top_p < 1,
        max_rows=rollout.max_rows,
        max_cache_tokens=rollout.max_cache_tokens,
    )


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A setting as it is written, and the peak it would lead to."""

    setting: str
    peak: int


def suggestions(config: Config, planner: Planner) -> list[Suggestion]:
    """Settings that make the fullest stage smaller, alone, the most helpful first; those that do not help are left out."""
    now = peak(planner.plans(config))
    found: list[Suggestion] = []
    multimodal = planner.model.tower is not None
    for setting, changed in changes(config, multimodal=multimodal, ranks=planner.ranks):
        size = peak(planner.plans(changed))
        if size < 0.98 * now:
            found.append(Suggestion(setting=setting, peak=size))
    return sorted(found, key=lambda change: change.peak)


def peak(planned: list[StagePlan]) -> int:
    return max(one.plan.peak.total for one in planned)


def changes(config: Config, *, multimodal: bool, ranks: int = 1) -> list[tuple[str, Config]]:
    """One thing changed at a time; where there are several ranks, the engine too."""
    policy = config.policy
    found: list[tuple[str, Config]] = []

    def put(setting: str, **options: Any) -> None:
        found.append((setting, replace(config, policy=replace(policy, **options))))

    if not policy.activation_checkpointing:
        put("policy.activation_checkpointing=true", activation_checkpointing=True)
    if policy.dtype != "bfloat16":
        put("policy.dtype=bfloat16", dtype="bfloat16")
    if multimodal and "vision" not in policy.freeze and policy.lora is None:
        put("policy.freeze=[vision, projector]", freeze=(*policy.freeze, "vision", "projector"))
    if policy.lora is None:
        put("policy.lora={rank: 16}", lora=LoraConfig(rank=16))
    budget = config.update.max_tokens_per_micro_batch
    for share in (2, 4, 8):
        found.append(_smaller_update(config, budget // share))
    keys = config.rollout.max_cache_tokens
    for share in (4, 16):
        found.append(_smaller_rollout(config, keys // share))
    for engine in planned_choices() if ranks > 1 else ():
        written = ", ".join(f"{key}: {value}" for key, value in engine.items())
        found.append((f"engine={{{written}}}", replace(config, engine=engine)))
    return found


def _smaller_update(config: Config, budget: int) -> tuple[str, Config]:
    """Micro-batches of `budget` tokens, where a stage has no less."""

    def less(update: UpdateConfig) -> UpdateConfig:
        return replace(
            update, max_tokens_per_micro_batch=min(budget, update.max_tokens_per_micro_batch)
        )

    stages = tuple(replace(stage, update=less(stage.update)) for stage in config.stages)
    changed = replace(config, update=less(config.update), stages=stages)
    return f"update.max_tokens_per_micro_batch={budget}", changed


def _smaller_rollout(config: Config, keys: int) -> tuple[str, Config]:
    """Keys and values of `keys` tokens at once, where a stage has no less."""

    def less(rollout: RolloutConfig) -> RolloutConfig:
        return replace(rollout, max_cache_tokens=min(keys, rollout.max_cache_tokens))

    stages = tuple(replace(stage, rollout=less(stage.rollout)) for stage in config.stages)
    changed = replace(config, rollout=less(config.rollout), stages=stages)
    return f"rollout.max_cache_tokens={keys}", changed
