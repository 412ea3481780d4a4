"""Samples with videos, and rollout engines that take none."""

from __future__ import annotations

from vlrft.rollout.engines import RolloutEngineKind, takes_videos
from vlrft.rollout.task import LoadedTask
from vlrft.schema.errors import ConfigError


def refuse_videos(kind: RolloutEngineKind, loaded: LoadedTask, where: str) -> None:
    """Raises ConfigError where the task's first sample shows a video and the engine takes none, before any server starts.
    `where`: what samples them, such as a stage."""
    if takes_videos(kind):
        return
    if any(sample.shown_videos for sample in loaded.head(1)):
        raise ConfigError(
            [
                f"rollout.engine: {type(kind).__name__.lower()} takes no videos, and {where} (task {loaded.task.name}) shows "
                "them; use rollout.engine=hf"
            ]
        )
