"""The process between a run and a server that it has started: ends the server, with all that the server has started, when the
run ends in whatever way, SIGKILL included; then removes the folders that belong to the run."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vlrft.workers.memory import descendants

LOOK_SECONDS = 0.2  # between looks at the server and at the run
GRACE_SECONDS = 10.0  # for a server to end by itself
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
NOT_STARTED = 127  # exit code, as of a shell
LEAVE = "leave"  # the message of a run that removes the folders itself


def keep(descriptor: int, caller: int) -> None:
    """Starts the server and waits until it, or the caller, ends, and ends this process.

    `descriptor`: the pipe to the caller. The first message is JSON with `command` (none: nothing is started), `environment`,
    `log` and `remove`, the folders to remove when the caller is gone; the pipe's end, or any other message, ends the server.
    """
    pipe: Connection[Any, Any] = Connection(descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # the caller decides, and SIGKILL ends this process, too
    while not pipe.poll(LOOK_SECONDS):
        if os.getppid() != caller:
            return
    try:
        options = json.loads(pipe.recv_bytes())
    except EOFError:
        return
    server = _start(options) if options["command"] else None
    message = ""
    while server is None or server.poll() is None:
        if pipe.poll(LOOK_SECONDS):
            with suppress(EOFError, OSError):
                message = pipe.recv()
            break
        if os.getppid() != caller:
            break
    if server is not None:
        end_group(server)
    if message != LEAVE:
        for folder in options["remove"]:
            shutil.rmtree(folder, ignore_errors=True)
    code = 0 if server is None else server.returncode
    sys.exit(code if code >= 0 else 128 - code)


def _start(options: dict[str, Any]) -> subprocess.Popen[bytes]:
    with Path(options["log"]).open("ab") as log:
        try:
            return subprocess.Popen(
                options["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                env=options["environment"],
            )
        except OSError as e:
            log.write(f"{options['command'][0]} does not start: {e.strerror}\n".encode())
            sys.exit(NOT_STARTED)


def _die_with_parent() -> None:
    """Asks the system to end the server if this process is killed. Linux; nothing elsewhere."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)


def end_group(server: subprocess.Popen[bytes], grace: float = GRACE_SECONDS) -> None:
    """Ends a process that leads a session, and everything that it has started: first asks, then kills."""
    started = descendants(server.pid)
    if server.poll() is None:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(grace)
    started += [pid for pid in descendants(server.pid) if pid not in started]
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.wait()
