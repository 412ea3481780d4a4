"""Forks of the process that runs the tests."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def run_in_fork(act: Callable[[], object]) -> int:
    """The exit code of a fork that calls `act`; 1 where it raises. The fork never comes back from here: it would go on with the
    other tests, and this process would wait for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
