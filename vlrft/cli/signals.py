"""Signals of a command: SIGTERM and SIGHUP end it as ctrl-C does, with a line; a SIGINT that is ignored says so."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from vlrft.distributed.interrupts import interrupt


@contextmanager
def handled_signals() -> Iterator[None]:
    """Handles signals within a `with` block, in the main thread of a process of its own.

    A rank is left alone, as the launcher ends it, and a rank that waits for others would not answer. A process that a
    script has started in the background ignores SIGINT; it prints how to end it. A SIGHUP that `nohup` ignores stays
    ignored.
    """
    if "RANK" in os.environ or threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt)}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        old[signal.SIGHUP] = signal.signal(signal.SIGHUP, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        old[signal.SIGINT] = signal.signal(signal.SIGINT, _advise)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _advise(number: int, frame: FrameType | None) -> None:
    line = f"vlrft: SIGINT is ignored, as this process was started in the background; kill {os.getpid()} ends it\n"
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode())
