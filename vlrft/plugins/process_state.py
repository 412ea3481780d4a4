"""The state of this process that a plugin's code must not leave changed: working directory, recursion limit, signals.

Relative paths of the run would name other files, deep code of the run would fail, and Ctrl-C would be lost. The state is
that of all threads, so one thread at a time runs code of plugins.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE_THREAD = threading.RLock()


@contextmanager
def keeping_process_state() -> Iterator[None]:
    """Runs a plugin's code in this process, after that of other threads, and restores what it changed."""
    with _ONE_THREAD:
        yield from _keeping_process_state()


def _keeping_process_state() -> Iterator[None]:
    folder = _current_folder()
    depth = sys.getrecursionlimit()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        handlers = {}  # our own handler of SIGTERM has changed them
        raise
    finally:
        sys.setrecursionlimit(depth)
        with suppress(OSError):
            if folder is not None and _current_folder() != folder:
                os.chdir(folder)
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None and signal.getsignal(number) is not handler:
                    signal.signal(number, handler)


def _current_folder() -> str | None:
    """None where it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None
