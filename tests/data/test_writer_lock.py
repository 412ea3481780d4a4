"""One writer at a time: processes of a machine, forks, other machines, and what is said."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forks import run_in_fork
from vlrft.data.writer import Writer
from vlrft.data.writer_lock import STALE, WriterLock, lock
from vlrft.schema.errors import FolderInUse

HOLDER = """
import os, sys, time
from pathlib import Path
from vlrft.data.writer_lock import lock
held = lock(Path(sys.argv[1]), "runs/a")
ready, done = os.pipe()
if os.fork() == 0:
    os.write(done, b"1")
    time.sleep(60)
os.read(ready, 1)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


@pytest.fixture
def other_machine(path: Path) -> Callable[[float], Writer]:
    """Writes the lock of a process on another machine, whose last heartbeat was some seconds ago."""

    def write(age: float) -> Writer:
        writer = replace(Writer.this(), host="node7", machine="another boot", pid=4242)
        path.write_bytes(writer.to_bytes())
        then = time.time() - age
        os.utime(path, (then, then))
        return writer

    return write


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """The change that happens during each wait for another machine, in place of the wait."""
    events: list[Callable[[], object]] = []
    monkeypatch.setattr("vlrft.data.writer_lock.time.sleep", lambda seconds: events.pop(0)())
    yield events
    assert not events


def test_a_second_writer_is_told_who_writes(path: Path) -> None:
    held = lock(path, "runs/a")
    with pytest.raises(FolderInUse) as caught:
        lock(path, "runs/a")
    assert str(caught.value) == (
        f"runs/a is being written by process {os.getpid()} on host {held.writer.host} "
        f"since {held.writer.started}; wait for its end, or stop it"
    )
    held.release()
    held.release()
    assert not path.exists()
    lock(path, "runs/a").release()


def test_the_lock_of_a_killed_process_is_free_though_its_fork_lives_on(path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        with pytest.raises(FolderInUse, match=f"process {pid} on host"):
            lock(path, "runs/a")
        os.kill(pid, signal.SIGKILL)
        holder.wait()
        assert not select.select([holder.stdout], [], [], 0)[0]  # the fork has its stdout open
        assert path.exists()
        lock(path, "runs/a").release()
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        if holder.stdout is not None:
            holder.stdout.close()


def test_a_fork_neither_holds_nor_releases_the_lock(path: Path) -> None:
    held = lock(path, "runs/a")
    assert run_in_fork(held.release) == 0
    assert path.exists()
    with pytest.raises(FolderInUse):
        lock(path, "runs/a")
    held.release()


def test_a_writer_on_another_machine_is_alive_if_its_heartbeat_moves(
    path: Path,
    other_machine: Callable[[float], Writer],
    patience: list[Callable[[], object]],
) -> None:
    said: list[str] = []
    other_machine(30.0)
    patience += [lambda: None, lambda: other_machine(1.0)]
    with pytest.raises(FolderInUse, match="process 4242 on host node7 since"):
        lock(path, "runs/a", said.append)
    (line,) = said
    assert f"is taken over in {STALE - 30:.0f} s if that process gives no sign of life" in line


def test_a_lock_of_another_machine_is_taken_over_when_its_heartbeat_is_old(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    other_machine: Callable[[float], Writer],
    patience: list[Callable[[], object]],
) -> None:
    other_machine(STALE + 1)
    taken = lock(path, "runs/a")
    assert json.loads(path.read_text())["pid"] == os.getpid()
    taken.release()
    other_machine(0.0)
    ages = iter([60.0, STALE + 1])
    monkeypatch.setattr(
        "vlrft.data.writer_lock._heartbeat", lambda handle, folder: (1.0, next(ages))
    )
    patience += [lambda: None]
    taken = lock(path, "runs/a", lambda text: None)
    assert json.loads(path.read_text())["token"] == taken.writer.token
    taken.release()
    assert not path.exists()


def test_a_file_system_without_flock_goes_by_the_heartbeat_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, patience: list[Callable[[], object]]
) -> None:
    def unsupported(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("vlrft.data.writer_lock.fcntl.flock", unsupported)
    held = lock(path, "runs/a")
    os.utime(path, (time.time() - 3, time.time() - 3))
    patience += [held.beat]
    with pytest.raises(FolderInUse):
        lock(path, "runs/a", lambda text: None)
    held.release()


def test_a_writer_whose_lock_was_taken_over_or_removed_stops(
    path: Path, other_machine: Callable[[float], Writer]
) -> None:
    held = lock(path, "runs/a")
    held.beat()
    held.refuse_if_lost()
    other_machine(0.0)
    held.beat()
    with pytest.raises(
        FolderInUse, match="runs/a: it is now being written by process 4242 on host"
    ):
        held.refuse_if_lost()
    held.release()
    gone = lock(path, "runs/a")
    path.unlink()
    gone.beat()
    with pytest.raises(FolderInUse, match=r"its lock file a\.lock is gone"):
        gone.refuse_if_lost()
    gone.release()


@pytest.mark.parametrize("content", [b"", b"junk", b"[1]", b'{"pid": "x"}', b"[" * 4000])
def test_a_lock_file_that_says_nothing_is_taken(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    taken = lock(path, "runs/a")
    assert json.loads(path.read_text())["token"] == taken.writer.token
    taken.release()


def test_a_lock_file_of_another_brings_no_control_characters_to_the_terminal(path: Path) -> None:
    writer = replace(Writer.this(), host="\x1b[2Jh\u202e", started="\r")
    assert str(writer) == f"process {os.getpid()} on host ?[2Jh? since ?"


def test_a_link_in_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("words")
    path.symlink_to("thesis")
    with pytest.raises(OSError, match="symbolic links"):
        lock(path, "runs/a")
    assert (tmp_path / "thesis").read_text() == "words"


def test_a_lock_released_at_the_moment_that_it_is_asked_for_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was opened before its holder removed it: the lock on it is worth nothing."""
    held = lock(path, "runs/a")
    flock = fcntl.flock

    def release_first(handle: int, how: int) -> None:
        held.release()
        flock(handle, how)

    monkeypatch.setattr("vlrft.data.writer_lock.fcntl.flock", release_first)
    second: WriterLock = lock(path, "runs/a")
    assert path.exists()
    monkeypatch.setattr("vlrft.data.writer_lock.fcntl.flock", flock)
    with pytest.raises(FolderInUse):
        lock(path, "runs/a")
    second.release()
