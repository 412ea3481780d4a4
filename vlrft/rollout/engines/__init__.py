"""Rollout engines: prompts in, sampled completions out. A file here that defines `KIND` is the engine of its name.

The other files are parts of engines. An engine's file imports optional packages inside the functions that need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from vlrft.config import RolloutConfig
from vlrft.config.choice import choose
from vlrft.plugins.kinds import Kinds
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import (
    CheckedEngine,
    ClosableEngine,
    EnginePlace,
    Limits,
    PlacedEngineKind,
    ProbedEngineKind,
    Request,
    RolloutEngine,
    RolloutEngineKind,
    RolloutMemoryModel,
    Sampling,
    SignallingEngineKind,
    StreamingEngine,
    StreamingEngineKind,
    VideoEngineKind,
)

__all__ = [
    "ROLLOUT_ENGINES",
    "CheckedEngine",
    "ClosableEngine",
    "EnginePlace",
    "Limits",
    "PlacedEngineKind",
    "ProbedEngineKind",
    "Request",
    "RolloutEngine",
    "RolloutEngineKind",
    "RolloutMemoryModel",
    "Sampling",
    "SignallingEngineKind",
    "StreamingEngine",
    "StreamingEngineKind",
    "VideoEngineKind",
    "build_rollout_engine",
    "can_stream",
    "close_rollout_engine",
    "engine_signals",
    "find_rollout_engine",
    "running_engine",
    "takes_videos",
]

ROLLOUT_ENGINES = Kinds("vlrft.rollout.engines", "vlrft.rollout_engines")


def find_rollout_engine(choice: str | Mapping[str, Any]) -> RolloutEngineKind:
    """A kind by name, or {name: …} with settings. Raises ConfigError for an unknown one and for wrong settings."""
    kind: RolloutEngineKind = choose(
        choice, ROLLOUT_ENGINES, at="rollout.engine", kind="rollout engine"
    )
    return kind


def can_stream(kind: RolloutEngineKind) -> bool:
    """Whether the kind's engines are `StreamingEngine`."""
    return isinstance(kind, StreamingEngineKind) and kind.streams


def engine_signals(kind: RolloutEngineKind) -> frozenset[str]:
    """The token signals that the kind's engines give."""
    return kind.signals if isinstance(kind, SignallingEngineKind) else frozenset()


def takes_videos(kind: RolloutEngineKind) -> bool:
    """Whether the kind's engines take prompts with videos."""
    return kind.takes_videos if isinstance(kind, VideoEngineKind) else True


def build_rollout_engine(
    config: RolloutConfig, policy: Policy, place: EnginePlace | None = None
) -> RolloutEngine:
    """The engine that `config.engine` names; close it with `close_rollout_engine`. `place`: None for one without a run.

    Raises ConfigError for settings that it does not support.
    """
    kind = find_rollout_engine(config.engine)
    kind.check(config)
    if isinstance(kind, PlacedEngineKind):
        place = place or EnginePlace()
        context = max(place.context, config.max_prompt_tokens + config.max_tokens)
        return kind.build_at(policy, replace(place, context=context))
    return kind.build(policy)


def close_rollout_engine(engine: RolloutEngine) -> None:
    """Ends the servers and threads of an engine that has any."""
    if isinstance(engine, ClosableEngine):
        engine.close()


@contextmanager
def running_engine(
    config: RolloutConfig, policy: Policy, place: EnginePlace | None = None
) -> Iterator[RolloutEngine]:
    """An engine with the policy's weights, while the block lasts."""
    engine = build_rollout_engine(config, policy, place)
    try:
        engine.load_weights(policy.weights(), 0)
        yield engine
    finally:
        close_rollout_engine(engine)
