"""Commands of vlrft in forked copies of this process, which has the heavy imports done: a run takes one second, not ten.

A copy has its own session, working folder, output files and signal handlers, and ends as `python -m vlrft` would.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 240.0  # seconds after which a command hangs: the slowest takes 20 on a loaded machine
MARK = "VLRFT_CAMPAIGN_CASE"  # environment variable by which processes that a case left are found
DEFAULT = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended."""

    command: str
    code: int | None  # negative: the number of the signal that ended it; None: killed after `LIMIT`
    out: str
    err: str
    seconds: float
    sent: tuple[int, ...] = ()  # signals that the case sent to it


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The differences from an ordinary start."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: tuple[int, ...] = ()  # signals that the process ignores, as after nohup
    file_size: int | None = None  # RLIMIT_FSIZE, bytes
    prepare: Callable[[], None] = lambda: None  # called in the copy before the command


ORDINARY = Setting()


def warm_up() -> None:
    """Imports what a training imports, so that copies need not."""

    import vlrft.cli.commands.train
    import vlrft.cli.main
    import vlrft.trainer.train  # noqa: F401


RUNNING: set[int] = set()  # process ids of copies that were started and not waited for


def end_all() -> None:
    """Kills the copies that still run, as the campaign itself ends."""
    while RUNNING:
        with suppress(ProcessLookupError):
            os.killpg(RUNNING.pop(), signal.SIGKILL)


class Child:
    """A forked copy that runs a function, usually a command of vlrft."""

    def __init__(
        self,
        folder: Path,
        run: Callable[[], int],
        *,
        command: str,
        log: Path,
        setting: Setting = ORDINARY,
    ) -> None:
        """`folder`: its working folder. `log`: the folder of its stdout and stderr."""
        self.command = command
        self.sent: list[int] = []
        self._begin = time.monotonic()
        log.mkdir(parents=True, exist_ok=True)
        name = f"{len(list(log.glob('*.err'))):02d}"
        self._out, self._err = log / f"{name}.out", log / f"{name}.err"
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(folder, run, setting, self._out, self._err)
        RUNNING.add(self.pid)

    def send(self, number: int, pid: int | None = None) -> None:
        """Sends a signal to the process, or to another one on its behalf."""
        try:
            os.kill(pid or self.pid, number)
            self.sent.append(number)
        except ProcessLookupError:
            pass

    def running(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    def wait(self, limit: float = LIMIT) -> Ended:
        code: int | None = None
        while self.running() and self.elapsed() < limit:
            time.sleep(0.01)
        hung = self.running()
        if hung:
            os.killpg(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        RUNNING.discard(self.pid)
        code = None if hung else os.waitstatus_to_exitcode(status)
        texts = [path.read_text(errors="replace") for path in (self._out, self._err)]
        return Ended(
            command=self.command,
            code=code,
            out=texts[0],
            err=texts[1],
            seconds=self.elapsed(),
            sent=tuple(self.sent),
        )


def start(
    arguments: Sequence[str], folder: Path, *, log: Path | None = None, setting: Setting = ORDINARY
) -> Child:
    """Starts `vlrft ARGUMENT …`."""

    def run() -> int:
        from vlrft.cli.main import main

        return main(list(arguments))

    command = " ".join(["vlrft", *arguments])
    return Child(folder, run, command=command, log=log or folder / "log", setting=setting)


def run(
    arguments: Sequence[str], folder: Path, *, log: Path | None = None, setting: Setting = ORDINARY
) -> Ended:
    """Runs `vlrft ARGUMENT …` to its end."""
    return start(arguments, folder, log=log, setting=setting).wait()


def left_processes(mark: str, patience: float = 8.0) -> list[int]:
    """Processes that the case with this mark left, after some seconds in which they may end; they are killed."""
    until = time.monotonic() + patience
    while (pids := _find_marked(mark)) and time.monotonic() < until:
        time.sleep(0.2)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _find_marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in pids if pid != os.getpid()]


def _become(folder: Path, run: Callable[[], int], setting: Setting, out: Path, err: Path) -> None:
    """The copy's side; does not return."""
    code = 1
    try:
        os.setsid()
        for default in DEFAULT:
            signal.signal(default, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python starts
        for number in setting.ignored:
            signal.signal(number, signal.SIG_IGN)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        for descriptor, path in ((1, out), (2, err)):
            os.dup2(os.open(path, flags, 0o644), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.update({"TMPDIR": str(err.parent)}, **setting.env)
        tempfile.tempdir = None  # it is read from the environment again
        if setting.file_size is not None:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (setting.file_size, hard))
        setting.prepare()
        code = run()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
