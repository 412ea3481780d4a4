"""Python subprocesses with a pipe: starting one, killing it, and how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

from vlrft.workers.memory import descendants

START_SECONDS = 120.0  # to start Python and to import the function; not part of a call's time limit


def start_process(
    server: str, *arguments: float | str | None, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Starts a Python process and returns it with our end of a pipe to it.

    The process calls the function `server` (`module:function`) with the descriptor of its end, our process id and the
    arguments. `environment`: variables added to ours.
    """
    ours, theirs = Pipe()
    module, _, function = server.partition(":")
    values = ", ".join(map(repr, (theirs.fileno(), os.getpid(), *arguments)))
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        f"from {module} import {function}; {function}({values})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,  # its own children are killed with it
        env=None if environment is None else {**os.environ, **environment},
    )
    theirs.close()
    return process, ours


def describe_exit(process: subprocess.Popen[bytes]) -> str:
    """How the process ended, in brackets; empty while it runs."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    return f" ({signal.Signals(-code).name})" if code < 0 else f" (exit code {code})"


def end(process: subprocess.Popen[bytes], pipe: Connection[Any, Any], caller: int) -> None:
    """Kills the process and its children, unless this process is a fork of the caller."""
    if os.getpid() != caller:
        return
    kill_group(process)
    pipe.close()  # later: a process whose pipe is closed takes us for dead
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its children, also those in a session of their own."""
    started = descendants(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _kill(started)


def end_session() -> None:
    """Kills this process and its children, also those in a session of their own; a process that does not lead its session, as
    a fork of one that `start_process` has started, kills nothing."""
    if os.getsid(0) != os.getpid():
        return
    _kill(descendants(os.getpid()))
    os.killpg(0, signal.SIGKILL)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
