"""Rollout engines: prompts in, sampled completions out. A file here that defines `KIND` is the engine of its name.

The other files are parts of `hf`. An engine's file imports optional packages inside the functions that need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlrft.config import RolloutConfig
from vlrft.config.choice import choose
from vlrft.plugins.kinds import Kinds
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import (
    Limits,
    Request,
    RolloutEngine,
    RolloutEngineKind,
    RolloutMemoryModel,
    Sampling,
)

__all__ = [
    "ROLLOUT_ENGINES",
    "Limits",
    "Request",
    "RolloutEngine",
    "RolloutEngineKind",
    "RolloutMemoryModel",
    "Sampling",
    "build_rollout_engine",
    "find_rollout_engine",
]

ROLLOUT_ENGINES = Kinds("vlrft.rollout.engines", "vlrft.rollout_engines")


def find_rollout_engine(choice: str | Mapping[str, Any]) -> RolloutEngineKind:
    """A kind by name, or {name: …} with settings. Raises ConfigError for an unknown one and for wrong settings."""
    kind: RolloutEngineKind = choose(
        choice, ROLLOUT_ENGINES, at="rollout.engine", kind="rollout engine"
    )
    return kind


def build_rollout_engine(config: RolloutConfig, policy: Policy) -> RolloutEngine:
    """The engine that `config.engine` names. Raises ConfigError for settings that it does not support."""
    kind = find_rollout_engine(config.engine)
    kind.check(config)
    return kind.build(policy)
