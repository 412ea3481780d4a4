"""Rollout engines that stream, in this process: answers from a function in an order that a test decides, and a copy of
the policy's module that samples in a thread."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from vlrft.config import RolloutConfig, strict
from vlrft.policy.chat import Chat
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Piece
from vlrft.testing.scripted_engine import ScriptedEngine


class Script:
    """Behaviour of the scripted engines of a test, and a record of their calls. A test resets it."""

    def __init__(self) -> None:
        self.hold: Callable[[str, int], bool] = lambda sample, version: False
        """Whether a request, for a sample and submitted after the weights of that step, waits for `let_go`."""
        self.submitted: list[tuple[str, int]] = []  # sample, version
        self.seeds: dict[str, list[tuple[int, ...]]] = {}  # by sample, in the order of submission
        self.held: list[tuple[str, Callable[[], None]]] = []  # by sample
        self.changed = threading.Condition(threading.RLock())
        self.errors: dict[str, Exception] = {}  # sample -> the error of its pieces

    def let_go(self, newest_first: bool = False, samples: Collection[str] | None = None) -> None:
        """Ends the requests that wait, or those for some samples."""
        with self.changed:
            chosen = [held for held in self.held if samples is None or held[0] in samples]
            self.held = [held for held in self.held if held not in chosen]
        for _, end in reversed(chosen) if newest_first else chosen:
            end()

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Returns when `ready`, which is asked after every submission."""
        with self.changed:
            assert self.changed.wait_for(ready, timeout=20)


script = Script()


@strict
class Scripted:
    """Answers one character, which the seed decides."""

    streams: ClassVar[bool] = True

    def check(self, config: RolloutConfig) -> None:
        """Every setting is supported."""

    def build(self, policy: Policy) -> ScriptedStream:
        return ScriptedStream(policy.chat, lambda request, seed: str(seed % 10))


class ScriptedStream(ScriptedEngine):
    """A `StreamingEngine` whose pieces end as `script` says."""

    def __init__(self, chat: Chat, answer: Callable[[Request, int], str]) -> None:
        super().__init__(chat, answer)
        self.version = -1

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        self.version = step

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        if sampling.temperature:  # no evaluation
            for request in requests:
                self._note(request)
        return super().generate(requests, sampling)

    def _note(self, request: Request) -> None:
        with script.changed:
            script.submitted.append((request.id, self.version))
            script.seeds.setdefault(request.id, []).append(request.seeds)

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        (pieces,) = super().generate([request], sampling)
        futures = [Future[Piece]() for _ in pieces]
        version = self.version

        def end() -> None:
            for future, piece in zip(futures, pieces, strict=True):
                if not future.cancelled():
                    if request.id in script.errors:
                        future.set_exception(script.errors[request.id])
                    else:
                        future.set_result(replace(piece, policy_steps=(version,) * len(piece.ids)))

        with script.changed:
            wait = False
            if sampling.temperature:  # no evaluation
                self._note(request)
                wait = script.hold(request.id, version)
            if wait:
                script.held.append((request.id, end))
            script.changed.notify_all()
        if not wait:
            end()
        return futures


@strict
class Copy:
    """Samples with a copy of the policy's module."""

    streams: ClassVar[bool] = True

    def check(self, config: RolloutConfig) -> None:
        """Every setting is supported."""

    def build(self, policy: Policy) -> CopyEngine:
        return CopyEngine(policy)


class CopyEngine:
    """A thread that samples the requests that wait, all together, with the weights that were loaded last. The gate
    compares it at every step."""

    check_every = 1
    max_gap: float | None = 1e-5

    def explain_gap(self) -> str:
        return ""

    def __init__(self, policy: Policy) -> None:
        model = copy.deepcopy(policy.model)
        self.policy = Policy(model.unload() if policy.has_lora else model, policy.chat)
        self.policy.trained_names = (
            policy.trained_names
        )  # so that no features of a trained tower are kept
        self.policy.model.requires_grad_(False)
        self._engine = HfEngine(self.policy)
        self._changed = threading.Condition()
        self._waiting: list[tuple[Request, Sampling, list[Future[Piece]]]] = []
        self._weights: tuple[dict[str, Tensor], int] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="copy", daemon=True)
        self._thread.start()

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        read = {name: tensor.detach().clone() for name, tensor in weights}
        with self._changed:
            self._weights = read, step

    def submit(self, request: Request, sampling: Sampling) -> list[Future[Piece]]:
        futures = [Future[Piece]() for _ in request.seeds]
        with self._changed:
            self._waiting.append((request, sampling, futures))
            self._changed.notify_all()
        return futures

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        futures = [self.submit(request, sampling) for request in requests]
        return [tuple(f.result() for f in group) for group in futures]

    def finish(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        step = -1
        named = dict(self.policy.model.named_parameters())
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                sampling = self._waiting[0][1]
                batch = [w for w in self._waiting if w[1] == sampling]
                self._waiting = [w for w in self._waiting if w[1] != sampling]
                weights, self._weights = self._weights, None
            if weights is not None:
                step = weights[1]
                with torch.no_grad():
                    for name, tensor in weights[0].items():
                        named[name].copy_(tensor)
            try:
                sampled = self._engine.generate([request for request, _, _ in batch], sampling)
            except Exception as e:
                for future in (f for _, _, futures in batch for f in futures):
                    future.set_exception(e)
                continue
            for (_, _, futures), pieces in zip(batch, sampled, strict=True):
                for future, piece in zip(futures, pieces, strict=True):
                    if future.set_running_or_notify_cancel():
                        future.set_result(replace(piece, policy_steps=(step,) * len(piece.ids)))
