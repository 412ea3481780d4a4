"""Processes of ours that run a function of ours beside this one: started, killed, and how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import Any

START_SECONDS = 120.0  # to start Python and to import what is called: not the call's own time


def launch(
    server: str, *arguments: float | str | None, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """A process of ours, and our end of the pipe to it. It runs `module:function` with the descriptor of its own end,
    our process's id, and the arguments. `environment`: variables that it has besides ours."""
    ours, theirs = Pipe()
    module, _, function = server.partition(":")
    given = ", ".join(map(repr, (theirs.fileno(), os.getpid(), *arguments)))
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        f"from {module} import {function}; {function}({given})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,  # what it starts itself is killed with it
        env=None if environment is None else {**os.environ, **environment},
    )
    theirs.close()
    return process, ours


def death_of(process: subprocess.Popen[bytes]) -> str:
    """How a process ended, in brackets; nothing while it has not."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return ""
    return f" ({signal.Signals(-code).name})" if code < 0 else f" (exit code {code})"


def end(process: subprocess.Popen[bytes], pipe: Connection[Any, Any], caller: int) -> None:
    """Kills the process and what it started; not in a copy of the caller that was forked."""
    if os.getpid() != caller:
        return
    pipe.close()
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the process with what it started itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
