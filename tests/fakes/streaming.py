"""A streaming engine that answers from a function, in an order of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Request, Sampling
from vlrft.schema import Piece
from vlrft.testing.scripted_engine import ScriptedEngine


class ShuffledEngine(ScriptedEngine):
    """Answers requests in the order that `shuffle` draws, in a thread that is started with the first of them.

    An exception that `answer` raises becomes that of the future.
    """

    def __init__(self, chat: Chat, answer: Callable[[Request, int], str], shuffle: int = 0) -> None:
        super().__init__(chat, answer)
        self.requests: list[Request] = []
        self.cancelled = 0
        self._random = random.Random(shuffle)
        self._waiting: list[tuple[Request, int, Sampling, Future[Piece]]] = []
        self._lock = threading.Lock()

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        futures: list[Future[Piece]] = [Future() for _ in request.seeds]
        with self._lock:
            self.requests.append(request)
            idle = not self._waiting
            for seed, future in zip(request.seeds, futures, strict=True):
                self._waiting.append((request, seed, sampling, future))
        if idle:
            threading.Thread(target=self._answer_all, daemon=True).start()
        return futures

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        raise AssertionError("episodes run in lock-step")

    def _answer_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                place = self._random.randrange(len(self._waiting))
                request, seed, sampling, future = self._waiting[place]
            if future.set_running_or_notify_cancel():  # from here on it cannot be cancelled
                try:
                    future.set_result(self._piece(self.answer(request, seed), sampling))
                except Exception as e:
                    future.set_exception(e)
            else:
                self.cancelled += 1
            with self._lock:
                self._waiting.pop(place)
