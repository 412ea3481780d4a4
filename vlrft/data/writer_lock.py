"""A lock for the one writer of a folder or a file, held until it is released or its process dies.

On one machine the kernel decides (`flock`), and releases the lock with the process, however that ends. A folder that
several machines share may lie on a file system whose `flock` ends at the machine: there the heartbeat decides, which the
writer sets every HEARTBEAT seconds. A lock of another machine is taken over after STALE seconds without one.

The lock is a small file with the writer's host, process and start. It is removed on release; one that a killed process
left is taken over at once on the same machine. Readers need no lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from vlrft.data.atomic import draft_path
from vlrft.data.writer import Writer
from vlrft.schema.errors import FolderInUse

HEARTBEAT = 10.0
"""Seconds between the heartbeats of a writer."""
STALE = 120.0
"""Seconds without a heartbeat after which a lock of another machine is taken over."""
POLL = 5.0
"""Seconds between looks at the lock of another machine."""
UNSUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
MAX_BYTES = 4096  # read of a lock file, which anyone may have written


class WriterLock:
    """A lock that this process holds. A fork of the process does not hold it."""

    def __init__(self, path: Path, handle: int, writer: Writer, subject: str) -> None:
        self.path, self.writer, self.subject = path, writer, subject
        self._handle: int | None = handle
        self._lost = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vlrft-lock", daemon=True)
        HELD.add(self)
        self._thread.start()

    def refuse_if_lost(self) -> None:
        """Raises FolderInUse where another process has taken the lock over, or the lock file is gone: this process was
        without a heartbeat for longer than STALE, or somebody removed the file."""
        if self._lost:
            raise FolderInUse([f"{self.subject}: {self._lost}; this process stops writing"])

    def release(self) -> None:
        """Removes the lock file and gives the lock up. Does nothing the second time, or in a fork of the holder."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        HELD.discard(self)
        self._over.set()
        self._thread.join()
        with suppress(OSError):
            if _same_file(handle, self.path):
                self.path.unlink()
        os.close(handle)

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def forget(self) -> None:
        """Closes the file in a fork of the holder, so that the lock ends with the holder."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def beat(self) -> None:
        """Sets the heartbeat, and notes whether the lock is still this process's own."""
        handle = self._handle
        if handle is None:
            return
        try:
            os.utime(handle)
            holder = _read_path(self.path)
        except OSError:  # a file system that is away for a moment
            return
        if holder is None:
            self._lost = f"its lock file {self.path.name} is gone"
        elif holder.token != self.writer.token:
            self._lost = f"it is now being written by {holder}"

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT):
            self.beat()


HELD: WeakSet[WriterLock] = WeakSet()


def _forget_all() -> None:
    for lock in list(HELD):
        lock.forget()
    HELD.clear()


os.register_at_fork(after_in_child=_forget_all)


class _OtherMachineError(Exception):
    """A lock of another machine whose writer may be alive."""

    def __init__(self, writer: Writer, beat: float, age: float) -> None:
        super().__init__(str(writer))
        self.writer, self.beat, self.age = writer, beat, age


def _say(text: str) -> None:
    print(f"vlrft: {text}", file=sys.stderr, flush=True)


def lock(path: Path, subject: str, say: Callable[[str], None] = _say) -> WriterLock:
    """Takes the lock file `path`, whose folder exists. `subject`: what it protects, for messages.

    Waits for the next heartbeat, at most STALE seconds, where another machine's writer may be dead. Raises FolderInUse
    with the writer where it is alive, and OSError where the file cannot be written.
    """
    first: float | None = None
    while True:
        try:
            taken = _try(path, subject)
        except _OtherMachineError as other:
            if first is not None and other.beat != first:
                raise _in_use(subject, other.writer) from None
            if first is None:
                first = other.beat
                say(
                    f"{subject} was being written by {other.writer}, on another machine; it is taken over "
                    f"in {STALE - other.age:.0f} s if that process gives no sign of life"
                )
            time.sleep(POLL)
        else:
            if taken is not None:
                return taken


def _try(path: Path, subject: str) -> WriterLock | None:
    """The lock; None where the file was removed at that moment by the process that held it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o644)
    try:
        kernel = _flock(handle)
        if kernel is False:
            raise _in_use(subject, _read(handle))
        if not _same_file(handle, path):
            return None
        old, me = _read(handle), Writer.this()
        if old is not None and not (kernel and old.machine == me.machine):
            beat, age = _heartbeat(handle, path.parent)
            if age < STALE:
                raise _OtherMachineError(old, beat, age)
        os.ftruncate(handle, 0)
        os.pwrite(handle, me.to_bytes(), 0)
        os.fsync(handle)
        taken, handle = WriterLock(path, handle, me, subject), -1
        return taken
    finally:
        if handle != -1:
            os.close(handle)


def _flock(handle: int) -> bool | None:
    """Whether the kernel gave the lock; None where the file system has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno in UNSUPPORTED:
            return None
        raise
    return True


def _in_use(subject: str, writer: Writer | None) -> FolderInUse:
    who = "another process" if writer is None else str(writer)
    return FolderInUse([f"{subject} is being written by {who}; wait for its end, or stop it"])


def _heartbeat(handle: int, folder: Path) -> tuple[float, float]:
    """The time of the last heartbeat and the seconds since then, both by the clock of the file system."""
    probe = draft_path(folder)
    try:
        with probe.open("xb") as file:
            now = os.fstat(file.fileno()).st_mtime
    finally:
        probe.unlink(missing_ok=True)
    beat = os.fstat(handle).st_mtime
    return beat, now - beat


def _same_file(handle: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), there)


def _read_path(path: Path) -> Writer | None:
    """The writer in the lock file; None where the file is gone or not a lock."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _read(handle)
    finally:
        os.close(handle)


def _read(handle: int) -> Writer | None:
    return Writer.parse(os.pread(handle, MAX_BYTES, 0))
