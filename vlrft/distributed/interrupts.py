"""Signals that stop a run: the first one lets the current step end and its checkpoint be written, a second one stops at once.

SIGINT (ctrl-C), SIGTERM and SIGHUP. Handlers are installed in the main thread only, for as long as a `with` block lasts;
a signal that is ignored (`nohup`) or that somebody else handles is left alone. No torch.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDED_BY_SIGNAL = (
    128  # plus the signal's number: the exit code of a command that a signal has ended
)


class Interrupted(KeyboardInterrupt):
    """A signal that ended the work. Its text says what was saved; empty where nothing was to be saved."""

    def __init__(self, number: int, message: str = "") -> None:
        super().__init__(message)
        self.number = number

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
        return ENDED_BY_SIGNAL + self.number


def signal_of(error: KeyboardInterrupt) -> int:
    """The signal that raised it: SIGINT where it was Python's own handler."""
    return error.number if isinstance(error, Interrupted) else int(signal.SIGINT)


class StopRequest:
    """Whether a signal has asked this process to stop after the current step."""

    def __init__(self) -> None:
        self.number = 0
        """The signal; 0 before one has come."""


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler that raises Interrupted where the process is; a second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Interrupted(number)


@contextmanager
def deferred_signals(say: Callable[[str], object]) -> Iterator[StopRequest]:
    """A context in which a first signal only sets the StopRequest, which the caller reads between two steps, and tells
    the user so with `say`. A second signal has the effect that it had before."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def defer(number: int, frame: FrameType | None) -> None:
        if request.number:
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)
            raise Interrupted(number)
        request.number = number
        again = "press ctrl-C again" if number == signal.SIGINT else "send it again"
        line = f"{signal.Signals(number).name}: stopping after this step; {again} to stop now"
        # Not here: the interrupted code may be printing, and a stream is not re-entrant.
        threading.Thread(target=say, args=(line,), daemon=True).start()

    ours = (signal.SIG_DFL, signal.default_int_handler, interrupt)
    before = {n: handler for n in STOP_SIGNALS if (handler := signal.getsignal(n)) in ours}
    for number in before:
        signal.signal(number, defer)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
