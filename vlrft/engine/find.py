"""Engines by name, and the memory that a plan assumes for one.

A file or package of this folder that defines `KIND` is the engine of its name; so are entry points of the group
`vlrft.engines`, and references such as `./mine.py:Mine`. An engine imports its backend (DeepSpeed, FSDP2, …) inside functions,
so that engines can be listed where the backend is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlrft.config import PolicyConfig, UpdateConfig
from vlrft.config.choice import choose
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine.protocols import EngineKind, MemoryModel, TrainEngine
from vlrft.engine.single import Single
from vlrft.memory.rank_memory import RankMemory
from vlrft.memory.shapes import ModelShape
from vlrft.plugins.kinds import Kinds
from vlrft.policy.adapters import base_of
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError

ENGINES = Kinds("vlrft.engine", "vlrft.engines")


def find_engine(choice: str | Mapping[str, Any]) -> EngineKind:
    """An engine by name, or {name: …} with settings. Raises ConfigError for an unknown one and for wrong settings."""
    kind: EngineKind = choose(choice, ENGINES, at="engine", kind="train engine")
    return kind


def build_engine(
    config: UpdateConfig,
    policy: Policy,
    total_steps: int,
    ranks: Ranks = ALONE,
    choice: str | Mapping[str, Any] = "single",
) -> TrainEngine:
    """The chosen engine over the policy, for a stage of `total_steps` steps."""
    return find_engine(choice).build(config, policy, total_steps, ranks)


def check_quantization(choice: str | Mapping[str, Any], policy: PolicyConfig) -> None:
    """Raises ConfigError for 4-bit weights (also those that the policy's adapter was trained on) without adapters to train,
    and under an engine whose kind does not say that it can train over them: `PACKED = True`."""
    if base_of(policy)[0].quantization in (None, "none"):
        return
    if not policy.has_adapters:
        raise ConfigError(
            [
                "policy.quantization: 4-bit weights are not trained, adapters on them are; set policy.lora, such as "
                "policy.lora={rank: 16}"
            ]
        )
    if not getattr(find_engine(choice), "PACKED", False):
        able = [name for name, kind in ENGINES.items() if getattr(kind, "PACKED", False)]
        name = choice if isinstance(choice, str) else choice["name"]
        raise ConfigError(
            [
                f"engine: {name} does not train over 4-bit weights (policy.quantization); use {' or '.join(able)}, or more "
                "ranks without 4-bit weights"
            ]
        )


def planned_choices() -> list[dict[str, Any]]:
    """Every engine that has a memory model, with each combination of settings that changes its memory."""
    return [
        {"name": name, **settings}
        for name, kind in ENGINES.items()
        for settings in getattr(kind, "CHOICES", ())
    ]


def rank_memory(
    engine: EngineKind, config: UpdateConfig, model: ModelShape, ranks: int
) -> tuple[RankMemory, bool]:
    """Memory of one rank under the engine, and whether it comes from the engine's own memory model.

    An engine without one is planned as `single`, whose ranks hold all weights and the whole optimiser. An engine that
    shards them holds less between steps; its buffers are not counted.
    """
    if isinstance(engine, MemoryModel):
        return engine.rank_memory(config, model, ranks), True
    return Single().rank_memory(config, model, ranks), False
