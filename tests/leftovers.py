"""The end of a session, which no thread or process that tests left keeps from coming."""

from __future__ import annotations

import faulthandler
import os
import signal
from contextlib import suppress

import pytest

from vlrft.workers.memory import descendants

EXIT_SECONDS = 60.0  # for a process of the session to end by itself
OTHERS_SECONDS = (
    400.0  # for the other workers of xdist to end their last tests, for which a worker waits
)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Ends the processes that this one has started, and later this one: Python waits at its end for processes of
    multiprocessing, and for threads."""
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    others = OTHERS_SECONDS if "PYTEST_XDIST_WORKER" in os.environ else 0.0
    faulthandler.dump_traceback_later(EXIT_SECONDS + others, exit=True, file=2)
