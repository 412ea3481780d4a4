"""A server that runs for as long as this process wants it, and not longer than this process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vlrft.workers.server_keeper import GRACE_SECONDS, LEAVE
from vlrft.workers.subprocess_pipe import kill_group, start_process

KEEPER = "vlrft.workers.server_keeper:keep"
LAST_LINES = 5
LAST_BYTES = 8192  # of a log, in which its last lines are looked for


def start_keeper(options: dict[str, Any]) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Starts a keeper. Its options go through the pipe: everybody can read command lines, and the environment has keys."""
    keeper, pipe = start_process(KEEPER)
    with suppress(OSError):  # a keeper that could not start: its exit code says so
        pipe.send_bytes(json.dumps(options).encode())
    return keeper, pipe


def end_keeper(keeper: subprocess.Popen[bytes], pipe: Connection[Any, Any]) -> None:
    """Asks a keeper to end its server and itself, waits for it, and kills it where it takes too long."""
    with suppress(OSError, ValueError):
        pipe.send(LEAVE)
    try:
        keeper.wait(GRACE_SECONDS + 5)
    except subprocess.TimeoutExpired:
        kill_group(keeper)
        keeper.wait()
    pipe.close()


class ServerProcess:
    """A command with its log. It ends with `stop`, and when this process ends or is killed."""

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it. `environment`: all of its variables; None: ours. Its output is added to `log`."""
        self.log = log
        self._begin = log.stat().st_size if log.exists() else 0
        options = {
            "command": list(command),
            "environment": dict(os.environ if environment is None else environment),
            "log": str(log),
            "remove": [],
        }
        self._keeper, self._pipe = start_keeper(options)

    @property
    def exit_code(self) -> int | None:
        """128 and the signal's number for a killed server; None while it runs."""
        return self._keeper.poll()

    @property
    def pid(self) -> int:
        """Of the keeper, whose only child is the server."""
        return self._keeper.pid

    def last_lines(self) -> str:
        """The last lines of its log, in one line."""
        return last_lines(self.log, begin=self._begin)

    def stop(self) -> None:
        """Ends the server and waits until it is gone."""
        end_keeper(self._keeper, self._pipe)


def last_lines(log: Path, *, begin: int = 0, count: int = LAST_LINES) -> str:
    """The last lines of a file that are not empty, in one line. `begin`: bytes at its start that do not count."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return " | ".join([line.strip() for line in lines if line.strip()][-count:])


class KeptFolder:
    """A folder that is removed when this process ends, killed or not."""

    def __init__(self, path: Path, *, private: bool = False) -> None:
        """Creates the folder. `private`: only this user can read it."""
        path.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        self.path = path
        options = {"command": [], "environment": {}, "log": "", "remove": [str(path)]}
        self._keeper, self._pipe = start_keeper(options)

    def close(self) -> None:
        """Removes the folder."""
        end_keeper(self._keeper, self._pipe)
        shutil.rmtree(self.path, ignore_errors=True)
