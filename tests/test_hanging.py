"""A test that waits for ever fails with the stacks of its threads, and neither the others nor the session wait for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = """
import multiprocessing
import signal
import threading
import time
from pathlib import Path


def stay():
    time.sleep(600)


def test_locked():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def test_joins():
    process = multiprocessing.get_context("fork").Process(target=stay)
    process.start()
    Path(__file__).with_name("pid").write_text(str(process.pid))
    process.join()


def test_is_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as in a wait of C code
    stay()


def test_passes():
    pass
"""
LEAVES_A_THREAD = """
import threading
import time

from tests import leftovers

leftovers.EXIT_SECONDS, leftovers.OTHERS_SECONDS = 0.2, 0.0
leftovers.pytest_sessionfinish()
threading.Thread(target=time.sleep, args=(600,), name="stays").start()
"""


def test_tests_that_hang_fail_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.leftovers import *\n")
    (tmp_path / "test_scratch.py").write_text(TESTS)
    limits = [
        "-o",
        "timeout=0.3",
        "-o",
        "faulthandler_timeout=1",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-n2", *limits, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert "3 failed, 1 passed" in done.stdout
    assert done.stdout.count("Timeout (>0.3s) from pytest-timeout") >= 2
    assert "crashed while running" in done.stdout
    assert "in test_is_deaf" in done.stderr
    left = Path("/proc", (tmp_path / "pid").read_text(), "cmdline")
    assert (
        not left.exists() or not left.read_bytes()
    )  # one that nobody has waited for has no command


def test_a_thread_that_stays_does_not_keep_the_session() -> None:
    command = [sys.executable, "-c", LEAVES_A_THREAD]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode == 1
    assert "_shutdown" in done.stderr
