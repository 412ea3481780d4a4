"""Calls in a worker process: time limits, crashes, exceptions and cleaning up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forks import run_in_fork
from vlrft.schema import DataError
from vlrft.schema.errors import (
    PluginError,
    UnsendableError,
    WorkerDied,
    WorkerError,
    WorkerMemoryError,
    WorkerTimeout,
)
from vlrft.workers.worker import Worker, Workers, reference_of

FUNCTIONS = """
import os, re, subprocess, sys, time, ctypes
from vlrft.schema import DataError

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one)

def pid(): return os.getpid()
def double(x): return 2 * x
def sleeps(): time.sleep(600)
def backtracks(): re.match(r"(a+)+$", "a" * 60 + "b")   # never releases the interpreter's lock
def starts(path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(path, "w").write(str(child.pid))
    time.sleep(600)
def leaves(): os._exit(3)
def crashes(): ctypes.string_at(0)
def raises(): raise KeyError("x")
def data(): raise DataError("sample a: unreadable")
def odd(): raise Odd("one", "two")
def leaves_two():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return [subprocess.Popen(command, start_new_session=own).pid for own in (False, True)]
def unsendable(): return lambda: 0
def prints(): print("loud"); return 1
def big(): return len(bytearray(b"x") * 2**30)
def reserves():
    import mmap
    return len(mmap.mmap(-1, 2**34))   # addresses without memory, as CUDA reserves them
KEPT = []
def leaks(): KEPT.append(bytearray(b"x") * 2**25)
def child_eats():
    command = "import time; x = bytearray(b'x') * 2**30; time.sleep(600)"
    subprocess.run([sys.executable, "-c", command])
def leaves_a_child():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(command, start_new_session=True).pid
def exits(): sys.exit(3)
class Rude(BaseException): pass
def rude(): raise Rude("no")
class Mute(Exception):
    def __str__(self): raise SystemExit("mute")
def mute(): raise Mute
def closes(): os.closerange(3, 200); return 1
def floods(): print("x" * 10**7); return 1
def moves(): os.chdir("/"); sys.setrecursionlimit(100); return 1
def forks():
    if os.fork() == 0: time.sleep(600)
    os._exit(4)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return f"{tmp_path}/functions.py"


@pytest.fixture
def worker() -> Iterator[Worker]:
    created = Worker()
    yield created
    created.close()


def alive(pid: int) -> bool:
    """Whether the process exists, as a zombie too."""
    return Path(f"/proc/{pid}").exists()


def gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_calls_run_in_one_other_process(file: str, worker: Worker) -> None:
    assert worker.call(f"{file}:double", 21, seconds=5) == 42
    pid = worker.call(f"{file}:pid", seconds=5)
    assert pid == worker.pid != os.getpid()
    assert worker.call(f"{file}:pid", seconds=5) == pid


@pytest.mark.parametrize("function", ["sleeps", "backtracks"])
def test_a_call_that_exceeds_its_time_is_killed_and_the_next_call_works(
    file: str, worker: Worker, function: str
) -> None:
    first = worker.call(f"{file}:pid", seconds=5)
    start = time.monotonic()
    with pytest.raises(WorkerTimeout, match=r"longer than 0\.3 s"):
        worker.call(f"{file}:{function}", seconds=0.3)
    assert time.monotonic() - start < 2  # long before it would end by itself
    assert not alive(first)
    assert worker.call(f"{file}:double", 1, seconds=5) == 2
    assert worker.pid != first


def test_children_of_the_process_are_killed_with_it(
    file: str, worker: Worker, tmp_path: Path
) -> None:
    with pytest.raises(WorkerTimeout):
        worker.call(f"{file}:starts", str(tmp_path / "pid"), seconds=1.5)
    grandchild = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{grandchild}/stat")
    end = time.monotonic() + 10  # a zombie until init or a subreaper collects it
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < end:
        time.sleep(0.02)
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(("function", "how"), [("leaves", "exit code 3"), ("crashes", "SIGSEGV")])
def test_the_error_says_how_a_process_died_and_the_next_call_works(
    file: str, worker: Worker, function: str, how: str
) -> None:
    with pytest.raises(WorkerDied, match=how):
        worker.call(f"{file}:{function}", seconds=5)
    assert worker.call(f"{file}:double", 2, seconds=5) == 4


def test_a_process_that_died_between_two_calls_fails_neither(file: str, worker: Worker) -> None:
    """Such as one that the kernel killed for memory."""
    pid = worker.call(f"{file}:pid", seconds=5)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert worker.call(f"{file}:double", 2, seconds=5) == 4
    assert gone(pid)


def test_exceptions_of_the_function_are_raised_in_the_caller(file: str, worker: Worker) -> None:
    with pytest.raises(KeyError, match="x"):
        worker.call(f"{file}:raises", seconds=5)
    with pytest.raises(DataError, match="sample a"):
        worker.call(f"{file}:data", seconds=5)
    with pytest.raises(WorkerError, match="Odd: one"):
        worker.call(f"{file}:odd", seconds=5)
    with pytest.raises(WorkerError, match="cannot be sent"):
        worker.call(f"{file}:unsendable", seconds=5)
    with pytest.raises(PluginError, match="did you mean"):
        worker.call(f"{file}:doubel", 1, seconds=5)
    with pytest.raises(WorkerError, match="cannot be pickled"):
        worker.call(f"{file}:double", lambda: 0, seconds=5)
    assert worker.call(f"{file}:double", 3, seconds=5) == 6


@pytest.mark.parametrize("name", ["big", "child_eats"])
def test_resident_memory_has_a_limit(file: str, name: str) -> None:
    worker = Worker(memory_gb=0.25)
    with pytest.raises(
        WorkerMemoryError, match=r"^used \S+ GB of memory, more than its limit of 0.25 GB, and"
    ):
        worker.call(f"{file}:{name}", seconds=60)
    assert worker.pid is None
    assert worker.call(f"{file}:reserves", seconds=60) == 2**34
    worker.close()


def test_memory_that_short_calls_leave_behind_counts(file: str) -> None:
    worker = Worker(memory_gb=0.25)
    assert worker.call(f"{file}:leaks", seconds=60) is None

    def leak_more() -> None:
        for _ in range(20):
            worker.call(f"{file}:leaks", seconds=60)

    with pytest.raises(WorkerMemoryError):
        leak_more()
    assert worker.call(f"{file}:double", 2, seconds=60) == 4
    worker.close()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("exits", UnsendableError, "SystemExit: 3"),
        ("rude", UnsendableError, "Rude: no"),
        ("mute", UnsendableError, "Mute: no message: its __str__ raised SystemExit"),
        ("odd", UnsendableError, "Odd: one"),
        ("closes", WorkerDied, "its process died"),
        ("forks", WorkerDied, r"its process died \(exit code 4\)"),  # its child keeps the pipe open
    ],
)
def test_code_that_breaks_every_rule_is_an_error_of_its_own_call(
    file: str, worker: Worker, name: str, kind: type[WorkerError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        worker.call(f"{file}:{name}", seconds=60)
    assert worker.call(f"{file}:double", 4, seconds=60) == 8


def test_output_working_directory_and_recursion_limit_of_a_worker_are_its_own(
    file: str, worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    here, depth = os.getcwd(), sys.getrecursionlimit()
    assert worker.call(f"{file}:floods", seconds=60) == 1
    assert worker.call(f"{file}:moves", seconds=60) == 1
    assert worker.call(f"{file}:double", 4, seconds=60) == 8
    assert (os.getcwd(), sys.getrecursionlimit()) == (here, depth)
    assert capfd.readouterr().out == ""


def test_the_time_to_load_a_function_is_at_least_that_of_its_call(
    file: str, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    ask = Worker._ask

    def record(self: Worker, message: bytes, seconds: float) -> object:
        limits.append(seconds)
        return ask(self, message, seconds)

    monkeypatch.setattr(Worker, "_ask", record)
    worker.call(f"{file}:double", 1, seconds=5)
    worker.call(f"{file}:pid", seconds=500)
    assert limits == [120, 5, 500, 500]


def test_prints_do_not_reach_stdout(
    file: str, worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    assert worker.call(f"{file}:prints", seconds=5) == 1
    worker.close()
    assert capfd.readouterr().out == ""


def test_close_leaves_no_process_and_no_zombie(file: str) -> None:
    worker = Worker()
    pid = worker.call(f"{file}:pid", seconds=5)
    worker.close()
    assert not alive(pid)
    pid = worker.call(f"{file}:pid", seconds=5)
    del worker
    assert gone(pid)


def test_a_child_in_a_session_of_its_own_ends_with_its_worker(file: str, tmp_path: Path) -> None:
    worker = Worker()
    child = worker.call(f"{file}:leaves_a_child", seconds=60)
    assert alive(child)
    worker.close()
    assert gone(child)


@pytest.mark.parametrize("kill", [False, True])
def test_workers_end_with_their_caller(file: str, tmp_path: Path, kill: bool) -> None:
    end = "os.kill(os.getpid(), 9)" if kill else ""
    script = f"""
import os, threading, time
from vlrft.workers.worker import Worker
idle, busy = Worker(), Worker()
a = idle.call({file + ":pid"!r}, seconds=5)
b = busy.call({file + ":pid"!r}, seconds=5)
print(a, b, flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    for pid in map(int, done.stdout.split()):
        assert gone(pid)


def test_children_of_a_worker_end_with_its_killed_caller(file: str) -> None:
    script = f"""
import os
from vlrft.workers.worker import Worker
worker = Worker()
print(*worker.call({file + ":leaves_two"!r}, seconds=60), flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = list(map(int, done.stdout.split()))
    left = [pid for pid in pids if not gone(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2
    assert not left


def test_a_busy_worker_ends_after_its_time_when_the_caller_is_gone(file: str) -> None:
    script = f"""
import os, threading, time
import vlrft.workers.worker as w
busy = w.Worker()
print(busy.call({file + ":pid"!r}, seconds=5), flush=True)
threading.Thread(target=lambda: busy.call({file + ":backtracks"!r}, seconds=1.0), daemon=True).start()
time.sleep(0.5)
os.kill(os.getpid(), 9)
"""
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    with caller.stdout as out:
        pid = int(out.readline())
    assert caller.wait(20) == -signal.SIGKILL
    ended = gone(pid, 20)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    assert ended


def test_threads_share_a_worker(file: str, worker: Worker) -> None:
    results: list[int] = []
    ask = lambda n: results.append(worker.call(f"{file}:double", n, seconds=20))  # noqa: E731
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_results_come_in_order_with_exceptions_in_their_place(file: str) -> None:
    workers = Workers(2)
    results = workers.map(f"{file}:double", [(1,), (None,), ("a",)], 5)
    workers.close()
    assert (results[0], results[2]) == (2, "aa")
    assert isinstance(results[1], TypeError)


def test_the_reference_of_a_function_names_its_module_or_file() -> None:
    assert reference_of(reference_of) == "vlrft.workers.worker:reference_of"
    with pytest.raises(WorkerError, match="not a function of a module"):
        reference_of(lambda: 0)


def test_a_fork_of_the_caller_has_a_worker_of_its_own(file: str, worker: Worker) -> None:
    pid = worker.call(f"{file}:pid", seconds=5)
    reads, writes = os.pipe()

    def call_another() -> None:
        os.write(writes, str(worker.call(f"{file}:pid", seconds=5)).encode())
        worker.close()

    assert run_in_fork(call_another) == 0
    assert int(os.read(reads, 20)) != pid
    os.close(reads)
    os.close(writes)
    assert worker.call(f"{file}:pid", seconds=5) == pid


def test_imports_do_not_count_in_the_time_of_a_call(tmp_path: Path, worker: Worker) -> None:
    (tmp_path / "heavy.py").write_text("import time\ntime.sleep(0.7)\ndef one(): return 1\n")
    (tmp_path / "light.py").write_text(
        f"from vlrft.plugins.references import load_attribute\n"
        f"def asks(): return load_attribute({f'{tmp_path}/heavy.py:one'!r})()\n"
    )
    heavy, light = f"{tmp_path}/heavy.py:one", f"{tmp_path}/light.py:asks"
    assert worker.call(heavy, seconds=0.5) == 1
    worker.close()
    assert worker.call(light, seconds=0.5, loads=[heavy]) == 1


def test_a_process_that_cannot_start_raises_a_plain_worker_error(
    file: str, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(WorkerError, match="does not start") as caught:
        worker.call(f"{file}:pid", seconds=5.0)
    assert not isinstance(caught.value, WorkerDied | WorkerTimeout)
    from vlrft.grading import SandboxedWorker

    with pytest.raises(WorkerError, match="does not start"):
        SandboxedWorker().call(len, ("a",), 5.0)
    monkeypatch.undo()
    assert worker.call(f"{file}:pid", seconds=5.0) > 0
