"""Ranks that watch each other: one that dies or hangs ends the run with one message that says where it was.

Each rank writes its status (a heartbeat, its step, phase and samples, and the servers that keep it waiting) to the store that the
processes connected through: every second, and at once when it starts on other samples or another phase. Rank 0 checks all ranks,
rank 1 checks rank 0.
A rank that only waits for others is not reported as the one that hangs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from vlrft.distributed.phases import notify
from vlrft.distributed.ranks import WAIT, Ranks

HEARTBEAT_SECONDS = 1.0
SHOWN_SAMPLES = 8
EXIT_CODE = 1
STOP_KEY = "vlrft/stop"  # in the store: the verdict of the rank that ended the run
START = "start"  # the phase of a rank that still loads, which may take any time
HOW_TO_RESUME = "the run stops; --resume continues from its last checkpoint"


@runtime_checkable
class Store(Protocol):
    """The part of torch.distributed's stores that is used here."""

    def set(self, key: str, value: str) -> Any: ...

    def get(self, key: str) -> bytes: ...

    def check(self, keys: list[str]) -> bool: ...


def status_key(rank: int) -> str:
    return f"vlrft/status/{rank}"


@dataclass
class RankStatus:
    """The step, phases and samples that this rank works on, updated by `vlrft.distributed.phases`."""

    step: int = 0
    phases: list[str] = field(default_factory=list[str])
    last_phases: tuple[str, ...] = ()  # the innermost ones that ended last: where a rank failed
    samples: tuple[str, ...] = ()
    progress_at: float = field(default_factory=time.monotonic)
    changed: threading.Event = field(default_factory=threading.Event)  # to be written at once
    outside: Callable[[], str] | None = None  # what the run waits for outside of its processes
    ended: bool = False  # without an error: no heartbeat follows
    _innermost: bool = False  # whether no phase has ended within the current one

    def begin(self, name: str) -> None:
        self.phases.append(name)
        self._innermost = True
        if len(self.phases) == 1:
            self.changed.set()
        self.progress_at = time.monotonic()

    def end(self) -> None:
        if self._innermost:
            self.last_phases, self._innermost = tuple(self.phases), False
        self.phases.pop()
        self.progress_at = time.monotonic()

    def work_on(self, samples: Sequence[str], step: int | None = None) -> None:
        self.samples = tuple(dict.fromkeys(samples))
        if step is not None:
            self.step, self.last_phases = step, ()
        self.progress_at = time.monotonic()
        self.changed.set()

    def depend_on(self, describe: Callable[[], str] | None) -> None:
        self.outside = describe

    def to_json(self, heartbeat: int) -> str:
        """The status as it is written to the store; `heartbeat` counts the writes."""
        phases = list(self.phases) or self.last_phases
        outside = self.outside  # the rank's thread may set it to None meanwhile
        return json.dumps(
            {
                "heartbeat": heartbeat,
                "step": self.step,
                "phase": "/".join(p for p in phases if p != WAIT) or START,
                "samples": list(self.samples[:SHOWN_SAMPLES]),
                "outside": "" if outside is None else outside(),
                "waiting": WAIT in phases,
                "ended": self.ended,
                "idle_seconds": time.monotonic() - self.progress_at,
            }
        )


def read_status(store: Store, rank: int) -> dict[str, Any] | None:
    """The latest status of a rank; None before its first."""
    if not store.check([status_key(rank)]):
        return None
    status: dict[str, Any] = json.loads(store.get(status_key(rank)))
    return status


def describe(status: dict[str, Any]) -> str:
    """Step, phase and samples, and the servers that do not answer, for a message."""
    samples = f", samples {status['samples']}" if status["samples"] else ""
    outside = f", {status['outside']}" if status["outside"] else ""
    return f"step {status['step']}, {status['phase']}{samples}{outside}"


class Watchdog:
    """One thread in each rank that writes the rank's status and checks those of others."""

    def __init__(
        self,
        ranks: Ranks,
        store: Store,
        *,
        step_timeout: float,
        heartbeat_timeout: float,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        """`step_timeout`: seconds within which a rank that does not wait for others must make progress;
        `heartbeat_timeout`: seconds within which it must write its status. `leave` ends this process."""
        self.ranks, self.store = ranks, store
        self.step_timeout, self.heartbeat_timeout = step_timeout, heartbeat_timeout
        self.leave = leave
        self.status = RankStatus()
        self._heartbeats: dict[int, tuple[int, float]] = {}  # a rank's latest, and when it was new
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Runs the thread for as long as the block lasts."""
        thread = threading.Thread(target=self._watch, name="vlrft-watchdog", daemon=True)
        thread.start()
        try:
            with notify(self.status):
                yield
            self.status.ended = True
        finally:
            self._over.set()
            self.status.changed.set()
            thread.join()

    def _watch(self) -> None:
        heartbeat = 0
        while not self._over.is_set():
            self.status.changed.wait(HEARTBEAT_SECONDS)
            self.status.changed.clear()
            heartbeat += 1
            try:
                self.store.set(status_key(self.ranks.rank), self.status.to_json(heartbeat))
                stopped = self.store.check([STOP_KEY])
                verdict = None if stopped else self.verdict(time.monotonic())
                if verdict is not None:
                    stop = {"rank": self.ranks.rank, "message": verdict}
                    self.store.set(STOP_KEY, json.dumps(stop))
            except RuntimeError as e:  # the process that holds the store is gone, and so is the run
                if self._over.is_set():
                    return
                stopped = False
                verdict = f"the connection to the other ranks is lost: {str(e).splitlines()[0]}"
            if verdict is not None:
                print(f"vlrft: {verdict}", file=sys.stderr, flush=True)
            if stopped or verdict is not None:
                self.leave(EXIT_CODE)
                return
        with suppress(RuntimeError):  # of a rank that failed while an earlier status was written
            self.store.set(status_key(self.ranks.rank), self.status.to_json(heartbeat + 1))

    def verdict(self, now: float) -> str | None:
        """The reason to end the run, from the status of the ranks that this one checks; None: there is none."""
        checked = {0: range(self.ranks.size), 1: (0,)}.get(self.ranks.rank, ())
        working: dict[int, dict[str, Any]] = {}
        for rank in checked:
            status = read_status(self.store, rank)
            if status is None or status["ended"]:
                continue
            heartbeat, since = self._heartbeats.get(rank, (-1, now))
            if status["heartbeat"] != heartbeat:
                self._heartbeats[rank] = status["heartbeat"], now
            elif now - since > self.heartbeat_timeout:
                return (
                    f"rank {rank} has sent no heartbeat for {now - since:.0f} s: "
                    f"{describe(status)}; {HOW_TO_RESUME}"
                )
            if not status["waiting"] and status["phase"] != START:
                working[rank] = status
        idle = {rank: status["idle_seconds"] for rank, status in working.items()}
        if not self.ranks.first or all(seconds <= self.step_timeout for seconds in idle.values()):
            return None
        # A collective inside an engine is not marked as a wait: a rank that waits in it is named with the one it waits for.
        places = [
            f"rank {rank} has made no progress for {idle[rank]:.0f} s: {describe(status)}"
            for rank, status in working.items()
            if idle[rank] > self.step_timeout / 2
        ]
        return f"{'; '.join(places)}; {HOW_TO_RESUME}"
