"""The process that writes a folder or a file, as its lock names it."""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Writer:
    """The process that holds a lock."""

    host: str
    machine: (
        str  # the same for all processes of one kernel, also in containers with other host names
    )
    pid: int
    started: str  # when it took the lock, UTC
    token: str  # of this lock alone

    @staticmethod
    def this() -> Writer:
        """This process, with a new token."""
        return Writer(
            host=socket.gethostname(),
            machine=_machine(),
            pid=os.getpid(),
            started=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
            token=secrets.token_hex(8),
        )

    @staticmethod
    def parse(text: bytes) -> Writer | None:
        """The writer of a lock file; None where the file says something else."""
        try:
            fields = json.loads(text)
            texts = {key: str(fields[key]) for key in ("host", "machine", "started", "token")}
            return Writer(pid=int(fields["pid"]), **texts)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def to_bytes(self) -> bytes:
        """The content of a lock file."""
        return (json.dumps(asdict(self)) + "\n").encode()

    def __str__(self) -> str:
        return (
            f"process {self.pid} on host {_printable(self.host)} since {_printable(self.started)}"
        )


def _machine() -> str:
    """The boot id of the kernel; the host name where there is none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:64])
