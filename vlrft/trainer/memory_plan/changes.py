"""Changes that make a run smaller, in the order in which they are tried: those that change its results least come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vlrft.config import Config, LoraConfig, RolloutConfig, UpdateConfig
from vlrft.engine import ENGINES, planned_choices

LEAST_TOKENS = 512  # of a micro-batch: smaller passes save little and leave a GPU idle
LEAST_ROWS = 8  # sampled at once
AREAS = (1_003_520, 501_760, 250_880)  # pixels of an image: 1,280, 640 and 320 tokens of 28 x 28
RANK = 16  # of new adapters


@dataclass(frozen=True, kw_only=True)
class Change:
    """Settings as they are written on the command line, and the config that they lead to."""

    settings: tuple[str, ...]
    apply: Callable[[Config], Config]


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One way to make a run smaller, at levels of which each is smaller than the one before. `effect`: on the run, in
    words."""

    effect: str
    levels: tuple[Change, ...]


def find_knobs(config: Config, *, multimodal: bool, resizable: bool, ranks: int) -> list[Knob]:
    """The knobs that this config has. `resizable`: no answer of its tasks is in pixels of a resized image."""
    policy = config.policy
    knobs = [_micro_batches(config)]
    if not policy.checkpoints_activations:
        setting = "policy.activation_checkpointing=true"
        change = _policy(setting, activation_checkpointing=True)
        knobs.append(Knob(effect="same results; passes compute layers twice", levels=(change,)))
    knobs += [_rows(config), _cache(config)]
    if ranks > 1:
        knobs.append(_engines(config))
    if policy.dtype in ("float32", "float64"):
        change = _policy("policy.dtype=bfloat16", dtype="bfloat16")
        knobs.append(
            Knob(effect="weights and activations of 8 bits of precision", levels=(change,))
        )
    if multimodal and resizable:
        knobs.append(_areas(config))
    if not policy.has_adapters:
        lora = _policy(f"policy.lora={{rank: {RANK}}}", lora=LoraConfig(rank=RANK))
        knobs.append(Knob(effect="trains adapters, not the weights", levels=(lora,)))
    if policy.build is None and policy.quantization is None:
        knobs.append(_quantization(config))
    return [knob for knob in knobs if knob.levels]


def _micro_batches(config: Config) -> Knob:
    key = "max_tokens_per_micro_batch"
    limits = _halves(config.update.max_tokens_per_micro_batch, LEAST_TOKENS)
    levels = tuple(
        Change(settings=(f"update.{key}={limit}",), apply=_limit("update", key, limit))
        for limit in limits
    )
    return Knob(effect="same results; more and smaller passes", levels=levels)


def _rows(config: Config) -> Knob:
    levels = tuple(
        Change(settings=(f"rollout.max_rows={rows}",), apply=_limit("rollout", "max_rows", rows))
        for rows in _halves(config.rollout.max_rows, LEAST_ROWS)
    )
    return Knob(effect="same results; sampling in more portions", levels=levels)


def _cache(config: Config) -> Knob:
    key, most = "max_cache_tokens", config.rollout.max_cache_tokens
    levels = tuple(
        Change(settings=(f"rollout.{key}={limit}",), apply=_limit("rollout", key, limit))
        for limit in (most // 4, most // 16, most // 64)
    )
    return Knob(effect="same results; sampling in more portions", levels=levels)


def _engines(config: Config) -> Knob:
    """Every engine that shards, from the one that shards least."""
    levels = tuple(
        Change(settings=(f"engine={flow(engine)}",), apply=_replace(engine=engine))
        for engine in planned_choices()
        if engine != {"name": config.engine} and engine != config.engine
    )
    return Knob(effect="same results; the ranks share weights and optimiser", levels=levels)


def _areas(config: Config) -> Knob:
    low, high = config.policy.min_pixels or 0, config.policy.max_pixels
    levels = tuple(
        _policy(f"policy.max_pixels={area}", max_pixels=area)
        for area in AREAS
        if low <= area and (high is None or area < high)
    )
    return Knob(effect="large images are made smaller", levels=levels)


def _quantization(config: Config) -> Knob:
    """4 bits, under new adapters where the config has none, and under an engine that can."""
    settings = ["policy.quantization=nf4"]
    options: dict[str, Any] = {"quantization": "nf4"}
    if not config.policy.has_adapters:
        settings.append(f"policy.lora={{rank: {RANK}}}")
        options["lora"] = LoraConfig(rank=RANK)
    able = [name for name, kind in ENGINES.items() if getattr(kind, "PACKED", False)]
    name = config.engine if isinstance(config.engine, str) else config.engine["name"]
    engine: str | dict[str, Any] = config.engine
    if name not in able:
        engine = able[0]
        settings.append(f"engine={engine}")

    def apply(before: Config) -> Config:
        return replace(before, policy=replace(before.policy, **options), engine=engine)

    change = Change(settings=tuple(settings), apply=apply)
    return Knob(effect="trains adapters on a model of 4-bit weights", levels=(change,))


def _policy(setting: str, **options: Any) -> Change:
    def apply(before: Config) -> Config:
        return replace(before, policy=replace(before.policy, **options))

    return Change(settings=(setting,), apply=apply)


def _replace(**options: Any) -> Callable[[Config], Config]:
    return lambda before: replace(before, **options)


def _limit(section: str, key: str, limit: int) -> Callable[[Config], Config]:
    """At most `limit` in the run's section, and in every stage's."""

    def lower(part: RolloutConfig | UpdateConfig) -> Any:
        return replace(part, **{key: min(limit, getattr(part, key))})

    def apply(before: Config) -> Config:
        stages = tuple(
            replace(stage, **{section: lower(getattr(stage, section))}) for stage in before.stages
        )
        return replace(before, **{section: lower(getattr(before, section))}, stages=stages)

    return apply


def _halves(present: int, least: int) -> Iterator[int]:
    while (present := present // 2) >= least:
        yield present


def flow(engine: Mapping[str, Any]) -> str:
    """An engine as a value on the command line."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in engine.items()) + "}"
