"""Callbacks: a user's own code at the events of a run. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from vlrft.reporting.run_result import RunResult
from vlrft.schema.errors import ConfigError


class StopTraining(Exception):
    """Raised by a callback: the run ends after the current step, as if its last stage ended there, with a checkpoint and a
    report. Its text is the reason, `RunResult.stopped`."""


@runtime_checkable
class Callback(Protocol):
    """Methods that a run calls; inherit it, and define those that you need.

    They are called on rank 0 only, between two steps, after the files of the run are written. The other ranks wait for
    rank 0 at the end of the step, so a slow callback slows the run down. A callback that raises StopTraining ends the run
    after the step; one that raises another exception ends it, too: a checkpoint is written, and then `vlrft.train` raises
    that exception (other ranks raise TrainingStopped).
    """

    def on_step(self, step: int, metrics: Mapping[str, float]) -> None:
        """After each step, with the metrics of its line in metrics.jsonl."""
        return

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """After each evaluation, with the value of each metric; step 0 is the evaluation before the first step."""
        return

    def on_checkpoint(self, step: int, path: Path) -> None:
        """After each checkpoint, with its folder, which transformers can load."""
        return

    def on_end(self, result: RunResult) -> None:
        """After the report, where the run is complete or a callback has stopped it; not after an error. The other ranks have
        ended then, so it may take any time."""
        return


EVENTS = ("on_step", "on_evaluation", "on_checkpoint", "on_end")


class Callbacks:
    """The callbacks of a run. Outside rank 0 they are not called. An exception is kept until the step has ended."""

    def __init__(self, callbacks: Sequence[Callback] = (), *, first: bool = True) -> None:
        """Raises ConfigError for an object that is no callback, such as one whose method has another name."""
        mistakes = [mistake for one in callbacks for mistake in _mistakes(one)]
        if mistakes:
            raise ConfigError(mistakes)
        self.callbacks = tuple(callbacks) if first else ()
        self.failure: Exception | None = None
        self.stop: StopTraining | None = None

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self._call(lambda callback: callback.on_step(step, dict(metrics)))

    def evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        self._call(lambda callback: callback.on_evaluation(step, dict(scores)))

    def checkpoint(self, step: int, path: Path) -> None:
        self._call(lambda callback: callback.on_checkpoint(step, path))

    def end(self, result: RunResult) -> None:
        """Raises a callback's exception at once: everything is written. After one in the last step no `on_end` is called."""
        if self.failure is None:
            self._call(lambda callback: callback.on_end(result))
        if self.failure is not None:
            raise self.failure

    def _call(self, act: Callable[[Callback], object]) -> None:
        for callback in self.callbacks:
            try:
                act(callback)
            except StopTraining as e:
                self.stop = self.stop or e
            except Exception as e:
                self.failure = self.failure or e


def _mistakes(callback: object) -> list[str]:
    """Methods that a callback lacks, and methods `on_…` that nothing would call."""
    kind = callback if isinstance(callback, type) else type(callback)
    unknown = [n for n in dir(callback) if n.startswith("on_") and n not in EVENTS]
    mistakes = [
        f"callbacks: {kind.__name__}.{name}: unknown; a callback has {', '.join(EVENTS)}"
        for name in unknown
    ]
    if isinstance(callback, type):
        mistakes.append(
            f"callbacks: {kind.__name__} is a class; give an object, {kind.__name__}(…)"
        )
    elif missing := [name for name in EVENTS if not callable(getattr(callback, name, None))]:
        mistakes.append(
            f"callbacks: {kind.__name__} has no {', '.join(missing)}; inherit vlrft.Callback, whose methods do nothing"
        )
    return mistakes
