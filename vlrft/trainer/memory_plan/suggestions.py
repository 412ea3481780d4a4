"""Settings that make a run smaller, each tried on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlrft.config import Config, LoraConfig, RolloutConfig, UpdateConfig
from vlrft.engine import planned_choices
from vlrft.trainer.memory_plan.planner import Planner, StagePlan

HELPS = 0.98  # a setting is suggested when the peak falls below this share of the present one


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A setting as it is written on the command line, and the peak that the run would have with it, in bytes."""

    setting: str
    peak: int


def suggest_settings(config: Config, planner: Planner) -> list[Suggestion]:
    """Settings that lower the peak of all stages, the most helpful first."""
    present = peak_bytes(planner.plans(config))
    multimodal = planner.model.tower is not None
    suggestions = [
        Suggestion(setting=setting, peak=peak_bytes(planner.plans(changed)))
        for setting, changed in candidate_changes(
            config, multimodal=multimodal, ranks=planner.ranks
        )
    ]
    helpful = [suggestion for suggestion in suggestions if suggestion.peak < HELPS * present]
    return sorted(helpful, key=lambda suggestion: suggestion.peak)


def peak_bytes(plans: Sequence[StagePlan]) -> int:
    """The peak of all stages."""
    return max(stage.plan.peak.total for stage in plans)


def candidate_changes(
    config: Config, *, multimodal: bool, ranks: int = 1
) -> Iterator[tuple[str, Config]]:
    """Settings with the config that they lead to, one change each; with several ranks other engines too."""
    policy = config.policy

    def with_policy(setting: str, **options: Any) -> tuple[str, Config]:
        return setting, replace(config, policy=replace(policy, **options))

    if not policy.checkpoints_activations:
        yield with_policy("policy.activation_checkpointing=true", activation_checkpointing=True)
    if policy.dtype != "bfloat16":
        yield with_policy("policy.dtype=bfloat16", dtype="bfloat16")
    if multimodal and "vision" not in policy.freeze and policy.lora is None:
        frozen = (*policy.freeze, "vision", "projector")
        yield with_policy("policy.freeze=[vision, projector]", freeze=frozen)
    if policy.lora is None:
        yield with_policy("policy.lora={rank: 16}", lora=LoraConfig(rank=16))
    for divisor in (2, 4, 8):
        yield _limit_update(config, config.update.max_tokens_per_micro_batch // divisor)
    for divisor in (4, 16):
        yield _limit_cache(config, config.rollout.max_cache_tokens // divisor)
    for engine in planned_choices() if ranks > 1 else ():
        written = ", ".join(f"{key}: {value}" for key, value in engine.items())
        yield f"engine={{{written}}}", replace(config, engine=engine)


def _limit_update(config: Config, limit: int) -> tuple[str, Config]:
    """Micro-batches of at most `limit` tokens in every stage."""

    def lower(update: UpdateConfig) -> UpdateConfig:
        tokens = min(limit, update.max_tokens_per_micro_batch)
        return replace(update, max_tokens_per_micro_batch=tokens)

    stages = tuple(replace(stage, update=lower(stage.update)) for stage in config.stages)
    changed = replace(config, update=lower(config.update), stages=stages)
    return f"update.max_tokens_per_micro_batch={limit}", changed


def _limit_cache(config: Config, limit: int) -> tuple[str, Config]:
    """Keys and values of at most `limit` tokens at once in every stage."""

    def lower(rollout: RolloutConfig) -> RolloutConfig:
        return replace(rollout, max_cache_tokens=min(limit, rollout.max_cache_tokens))

    stages = tuple(replace(stage, rollout=lower(stage.rollout)) for stage in config.stages)
    changed = replace(config, rollout=lower(config.rollout), stages=stages)
    return f"rollout.max_cache_tokens={limit}", changed
