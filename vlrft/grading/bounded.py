"""Calls a function within bounds of time and memory, in a process of its own that is killed and
started anew when it breaks one.

For code that hostile text can make run forever: symbolic algebra, foreign parsers. No signal is
used in the calling process, so any thread may call; one call runs at a time, the others wait. The
worker is a fresh interpreter that imports only what the function needs: nothing of the caller is
copied (`__main__`, torch, locks, CUDA). It ends with its caller, and by itself when a call outlives
the caller. POSIX only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")

MEMORY = 2 << 30  # bytes of address space; sympy needs a tenth of that
START = 60.0  # seconds that a fresh interpreter may take to start on a loaded machine
_MAIN = (
    "from vlrft.grading.bounded import serve; import sys; serve(int(sys.argv[1]), int(sys.argv[2]))"
)


class Bounded:
    """A worker process that starts with the first call and stays for the next ones."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Any = None  # Connection, whose type parameters differ between versions
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    def call(
        self, function: Callable[..., T], arguments: tuple[Any, ...], seconds: float
    ) -> T | None:
        """What the function returns; None when it takes too long, too much memory or too deep a
        recursion, or ends its process.

        The function and its arguments are pickled: the function is one that can be imported by
        name. Raises ImportError as the function does, and RuntimeError for anything else that it
        raises.
        """
        with self._lock:
            try:
                answer = self._exchange((function, arguments, seconds), seconds)
            except BaseException:  # Ctrl-C: the answer that is under way is nobody's
                self._stop()
                raise
            if answer is None:
                self._stop()
                return None
        kind, value = answer
        if kind == "import":
            raise ImportError(value)
        if kind == "error":
            raise RuntimeError(value)
        result: T | None = value
        return result

    @property
    def pid(self) -> int | None:
        """The worker's process id, None while there is none."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """Ends the worker; a later call starts another."""
        with self._lock:
            self._stop()

    def _exchange(self, request: object, seconds: float) -> tuple[str, Any] | None:
        """The worker's answer; None when it is late, or the worker ends twice over."""
        for _ in range(2):  # it may have been killed from outside while it was idle
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            try:
                self._pipe.send(request)
                if not self._pipe.poll(seconds):
                    return None
                answer: tuple[str, Any] = self._pipe.recv()
                return answer
            except (EOFError, OSError):
                self._stop()
        return None

    def _start(self) -> None:
        ours, theirs = Pipe()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, str(theirs.fileno()), str(self._memory)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        theirs.close()
        self._pipe = ours
        if not ours.poll(START):
            self._stop()
            raise RuntimeError(
                f"no worker process for grading within {START:g} s; is memory short?"
            )
        try:
            ours.recv()  # its greeting: the time of a call begins here
        except EOFError:
            self._stop()
            raise RuntimeError("the worker process for grading ended as it started") from None

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
        self._process = self._pipe = None

    def _forget(self) -> None:
        """A forked child has no right to its parent's worker and starts its own."""
        self._lock = threading.Lock()
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.returncode = 0  # not its child to wait for
        self._process = self._pipe = None


def serve(descriptor: int, memory: int) -> None:
    """The worker's side: answers calls until the caller is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    pipe: Any = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):  # the caller is gone
        pipe.send(("ready", None))
        while True:
            pipe.send(_answer(pipe))


def _answer(pipe: Any) -> tuple[str, Any]:
    try:
        function, arguments, seconds = pipe.recv()
        signal.alarm(int(seconds) + 2)  # ends this process, should the caller no longer be there to
        value = function(*arguments)
    except (MemoryError, RecursionError):
        return "value", None
    except (EOFError, OSError):
        raise
    except ImportError as e:
        return "import", str(e)
    except Exception as e:
        return "error", f"{type(e).__name__}: {str(e)[:500]}"
    finally:
        signal.alarm(0)
    return "value", value
