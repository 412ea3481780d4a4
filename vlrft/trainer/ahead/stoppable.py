"""A streaming engine whose futures end when the run does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial

from torch import Tensor

from vlrft.rollout.engines import Request, Sampling, StreamingEngine
from vlrft.schema import Piece
from vlrft.trainer.ahead.steps import JobStopped


class StoppableEngine:
    """A `StreamingEngine` on top of another. After `stop` every future that is not done raises JobStopped, so that a
    thread that waits for one ends at once; the engine below is asked to drop them."""

    def __init__(self, engine: StreamingEngine, progress: Callable[[], object] = int) -> None:
        """`progress` is called after each piece, from the engine's threads."""
        self.engine = engine
        self._progress = progress
        self._lock = threading.Lock()
        self._open: dict[Future[Piece], Future[Piece]] = {}  # ours -> the engine's
        self._stopped = False

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        """See `StreamingEngine.submit`. Raises JobStopped after `stop`."""
        if self._stopped:
            raise JobStopped
        inner = self.engine.submit(request, sampling)
        pairs = {Future[Piece](): future for future in inner}
        for ours in pairs:
            ours.set_running_or_notify_cancel()
        with self._lock:
            self._open |= pairs
            stopped = self._stopped
        if stopped:
            self._end(list(pairs))
        for ours, future in pairs.items():
            future.add_done_callback(partial(self._finish, ours))
        return list(pairs)

    def _finish(self, ours: Future[Piece], inner: Future[Piece]) -> None:
        with self._lock:
            if self._open.pop(ours, None) is None:
                return
        if inner.cancelled():
            ours.set_exception(JobStopped())
        elif (error := inner.exception()) is not None:
            ours.set_exception(error)
        else:
            ours.set_result(inner.result())
        self._progress()

    def stop(self) -> None:
        """Ends all futures."""
        with self._lock:
            self._stopped = True
            ours = list(self._open)
        self._end(ours)

    def _end(self, futures: Sequence[Future[Piece]]) -> None:
        for ours in futures:
            with self._lock:
                inner = self._open.pop(ours, None)
            if inner is not None:
                ours.set_exception(JobStopped())
                inner.cancel()

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`."""
        futures = [self.submit(request, sampling) for request in requests]
        return [tuple(future.result() for future in group) for group in futures]

    def finish(self) -> None:
        """Does nothing: ranks do not sample together."""

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """See `RolloutEngine.load_weights`."""
        self.engine.load_weights(weights, step)
