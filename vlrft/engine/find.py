"""Engines by name. Each module or package of this folder that holds `ENGINE` is one.

The modules are imported when an engine is first looked up. They import their backend (DeepSpeed, …) inside functions, so
that engines can be listed where it is not installed.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from vlrft.config import UpdateConfig
from vlrft.config.choice import choose
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine.protocols import EngineConfig, MemoryModel, TrainEngine
from vlrft.engine.single import Single
from vlrft.memory.rank_share import Share
from vlrft.memory.shapes import Model
from vlrft.policy.policy import Policy


@cache
def engines() -> Mapping[str, type[EngineConfig]]:
    """The `ENGINE` of every module of this folder that has one, by module name."""
    package = sys.modules[__package__]
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    modules = {name: importlib.import_module(f"{__package__}.{name}") for name in names}
    return {name: m.ENGINE for name, m in modules.items() if hasattr(m, "ENGINE")}


def find_engine(choice: str | Mapping[str, Any]) -> EngineConfig:
    """An engine by name, or {name: …} with settings. Raises ConfigError for an unknown one and for wrong settings."""
    return choose(choice, engines(), at="engine")


def build_engine(
    config: UpdateConfig,
    policy: Policy,
    total_steps: int,
    ranks: Ranks = ALONE,
    choice: str | Mapping[str, Any] = "single",
) -> TrainEngine:
    """The chosen engine, for a stage of `total_steps` steps."""
    return find_engine(choice).build(config, policy, total_steps, ranks)


def planned_choices() -> list[dict[str, Any]]:
    """Every engine that has a memory model, with each combination of settings that changes its memory."""
    return [
        {"name": name, **settings}
        for name, engine in engines().items()
        for settings in getattr(engine, "CHOICES", ())
    ]


def rank_memory(
    engine: EngineConfig, config: UpdateConfig, model: Model, ranks: int
) -> tuple[Share, bool]:
    """Memory of one rank under the engine, and whether the engine's own memory model says so.

    An engine without one is planned as `single`: every rank holds all weights and the whole optimiser. That is the most
    an engine that shards them holds all along; buffers of its own are not counted.
    """
    if isinstance(engine, MemoryModel):
        return engine.rank_memory(config, model, ranks), True
    return Single().rank_memory(config, model, ranks), False
