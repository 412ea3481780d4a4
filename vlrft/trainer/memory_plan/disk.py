"""The room that a run's checkpoints take on the disk of its folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from vlrft.config import Config
from vlrft.memory.plan import format_bytes
from vlrft.reporting.run_folder.names import CHECKPOINTS
from vlrft.schema.errors import ConfigError
from vlrft.trainer.memory_plan.planner import StagePlan


def most_checkpoints(config: Config) -> int:
    """How many checkpoints are on the disk at once: those that are kept and one that is being written."""
    save = config.save
    most = save.keep_last + save.keep_best + 1
    return most if save.every else min(most, len(config.stages))


def check_disk(config: Config, stages: Sequence[StagePlan], folder: Path) -> list[str]:
    """The lines of `checkpoint_lines`. Raises ConfigError where the disk has no room for a single checkpoint, so that all of
    the training would be lost, and `config.memory_check` is true."""
    size, room = _largest(stages), free_room(folder)
    if room < size and config.memory_check:
        raise ConfigError(
            [
                f"{folder}: a checkpoint takes {format_bytes(size)} and its disk has {format_bytes(room)} left; free some room or "
                "choose another --out; memory_check=false starts the run all the same"
            ]
        )
    return checkpoint_lines(config, stages, folder)


def checkpoint_lines(config: Config, stages: Sequence[StagePlan], folder: Path | None) -> list[str]:
    """The size of a checkpoint and how many there are at once; with a folder the room on its disk, and a warning where it has
    less."""
    size, most = _largest(stages), most_checkpoints(config)
    counted = f"{format_bytes(size)} for each checkpoint"
    if most > 1:
        counted += f", {format_bytes(size * most)} for up to {most} at once"
    if folder is None:
        return [counted]
    room = free_room(folder)
    lines = [f"{counted}; {format_bytes(room)} free for {folder}"]
    if room < size * most:
        lines.append(
            "too small for all of them: the run would stop where a checkpoint cannot be written; free some room, choose another "
            "--out, or lower save.keep_last and save.keep_best"
        )
    return lines


def free_room(folder: Path) -> int:
    """Bytes that the disk of a folder, which need not exist yet, has for checkpoints: free, or held by those of an earlier run
    in the folder, which make room for new ones."""
    checkpoints = folder / CHECKPOINTS  # a folder, or a link to one on another disk
    place = next(p for p in (checkpoints, folder, *folder.absolute().parents) if p.exists())
    held = [p.lstat() for p in checkpoints.glob("step_*/**/*")]
    return shutil.disk_usage(place).free + sum(status.st_size for status in held)


def _largest(stages: Sequence[StagePlan]) -> int:
    return max(stage.checkpoint for stage in stages)
