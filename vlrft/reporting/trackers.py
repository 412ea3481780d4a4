"""Experiment trackers, with one small protocol; each is imported only when a config names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from vlrft.schema.errors import TrackerError
from vlrft.schema.short_message import first_line


@runtime_checkable
class Tracker(Protocol):
    """A tracker of metrics by name and step."""

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files below RUN/tensorboard."""

    def __init__(self, run: Path) -> None:
        self._writer: Any = _load("torch.utils.tensorboard", "tensorboard").SummaryWriter(
            str(run / "tensorboard")
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class HostedTracker:
    """W&B or trackio, which share one interface."""

    def __init__(self, package: str, run: Path) -> None:
        self._module: Any = _load(package, package)
        self._module.init(project="vlrft", name=run.name)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._module.log(dict(metrics), step=step)

    def close(self) -> None:
        self._module.finish()


def build_trackers(names: Sequence[str], run: Path) -> list[Tracker]:
    """The trackers of a run. Raises TrackerError naming the extra to install."""
    makers: dict[str, Callable[[], Tracker]] = {
        "tensorboard": lambda: TensorBoard(run),
        "wandb": lambda: HostedTracker("wandb", run),
        "trackio": lambda: HostedTracker("trackio", run),
    }
    return [makers[name]() for name in names]


def _load(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as e:
        raise TrackerError(_why_not(extra, e)) from e


def _why_not(extra: str, error: ImportError) -> str:
    """The message for a tracker that cannot be imported: it is absent, or a package that it needs is broken or absent."""
    try:
        present = find_spec(extra) is not None
    except (ImportError, ValueError):
        present = False
    if present:
        return f"log.trackers: {extra} is installed, but its import fails: {first_line(error)}"
    return f"log.trackers: {extra} is not installed; pip install 'vlrft[{extra}]'"
