"""Ranks that watch each other: one that dies or gets no further ends the run, with one message that says where it was.

Each rank tells where it is, every second and whenever it takes up other samples or another part of a step, through the
store that the processes met at. The first rank judges all of them, the second one the first. A rank that only waits for
others is not the one that hangs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from vlrft.distributed.ranks import WAIT, Ranks
from vlrft.tracing.phases import notify

BEAT = 1.0  # seconds between two signs of life
SHOWN_SAMPLES = 8
FAILED = 1  # exit code
STOP = "vlrft/stop"


@runtime_checkable
class Store(Protocol):
    """Of torch.distributed's stores what is used here."""

    def set(self, key: str, value: str) -> Any: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...


def status_key(rank: int) -> str:
    return f"vlrft/place/{rank}"


@dataclass
class Place:
    """Where a rank is. A follower of its phases."""

    step: int = 0
    phases: list[str] = field(default_factory=list[str])
    past: tuple[str, ...] = ()  # the innermost phases that ended last: where a rank was that fails
    samples: tuple[str, ...] = ()
    moved: float = field(default_factory=time.monotonic)
    news: threading.Event = field(default_factory=threading.Event)  # something that is told at once
    _inner: bool = False  # whether no phase has ended within the present one

    def begin(self, name: str) -> None:
        self.phases.append(name)
        self._inner = True
        if len(self.phases) == 1:
            self.news.set()
        self.moved = time.monotonic()

    def end(self) -> None:
        if self._inner:
            self.past, self._inner = tuple(self.phases), False
        self.phases.pop()
        self.moved = time.monotonic()

    def about(self, samples: Sequence[str], step: int | None = None) -> None:
        self.samples = tuple(dict.fromkeys(samples))
        if step is not None:
            self.step, self.past = step, ()
        self.moved = time.monotonic()
        self.news.set()

    def told(self, beat: int) -> str:
        """As it is put into the store."""
        phases = list(self.phases) or self.past
        return json.dumps(
            {
                "beat": beat,
                "step": self.step,
                "phase": "/".join(p for p in phases if p != WAIT) or START,
                "samples": list(self.samples[:SHOWN_SAMPLES]),
                "waits": WAIT in phases,
                "still": time.monotonic() - self.moved,
            }
        )


def where(told: dict[str, Any]) -> str:
    """A rank's last place as a person reads it."""
    samples = f", samples {told['samples']}" if told["samples"] else ""
    return f"step {told['step']}, {told['phase']}{samples}"


def read(store: Store, rank: int) -> dict[str, Any] | None:
    """What a rank last told; None before it told anything."""
    if not store.check([status_key(rank)]):
        return None
    found: dict[str, Any] = json.loads(store.get(status_key(rank)))
    return found


class Watchdog:
    """One thread a rank."""

    def __init__(
        self,
        ranks: Ranks,
        store: Store,
        *,
        stuck: float,
        silent: float,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        """`stuck`: seconds in which a rank that does not wait must move; `silent`: in which it must tell its place."""
        self.ranks, self.store = ranks, store
        self.stuck, self.silent, self.leave = stuck, silent, leave
        self.place = Place()
        self._heard: dict[int, tuple[int, float]] = {}  # last beat of a rank, and when it was new
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it this rank tells where it is, and judges."""
        thread = threading.Thread(target=self._watch, name="vlrft-watchdog", daemon=True)
        thread.start()
        try:
            with notify(self.place):
                yield
        finally:
            self._over.set()
            self.place.news.set()
            thread.join()

    def _watch(self) -> None:
        beat = 0
        while not self._over.is_set():
            self.place.news.wait(BEAT)
            self.place.news.clear()
            beat += 1
            try:
                self.store.set(status_key(self.ranks.rank), self.place.told(beat))
                stopped = self.store.check([STOP])
                verdict = None if stopped else self.verdict(time.monotonic())
                if verdict is not None:
                    judged = {"by": self.ranks.rank, "said": verdict}
                    self.store.set(STOP, json.dumps(judged))
            except RuntimeError as e:  # whoever kept the store is gone, and with it the run
                if self._over.is_set():
                    return
                stopped, verdict = (
                    False,
                    f"the ranks have lost their store: {str(e).splitlines()[0]}",
                )
            if verdict is not None:
                print(f"vlrft: {verdict}", file=sys.stderr, flush=True)
            if stopped or verdict is not None:
                self.leave(FAILED)
                return

    def verdict(self, now: float) -> str | None:
        """What ends the run, of the ranks that this one judges; None: nothing."""
        judged = {0: range(self.ranks.size), 1: (0,)}.get(self.ranks.rank, ())
        still: dict[int, dict[str, Any]] = {}
        for rank in judged:
            told = read(self.store, rank)
            if told is None:
                continue
            beat, since = self._heard.get(rank, (-1, now))
            if told["beat"] != beat:
                self._heard[rank] = told["beat"], now
            elif now - since > self.silent:
                return (
                    f"rank {rank} has been silent for {now - since:.0f} s: {where(told)}; {GO_ON}"
                )
            if not told["waits"] and told["phase"] != START:
                still[rank] = told
        if not self.ranks.first or all(t["still"] <= self.stuck for t in still.values()):
            return None
        # an engine's own exchange is not known as a wait: who waits in one is named with whom it waits for
        named = {rank: told for rank, told in still.items() if told["still"] > self.stuck / 2}
        places = [
            f"rank {r} has not moved for {t['still']:.0f} s: {where(t)}" for r, t in named.items()
        ]
        return f"{'; '.join(places)}; {GO_ON}"


START = "start"  # the phase of a rank that loads, which may take any time
GO_ON = "the run stops, --resume goes on from its last checkpoint"
