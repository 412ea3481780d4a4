"""Calls with limits: one that exceeds a limit returns None, and the next call works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.grading.math import slow
from vlrft.grading import SandboxedWorker

AMPLE = 60.0  # seconds; no test waits that long unless something is wrong
SHORT = 0.2  # seconds; the limit of a function that never ends


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxedWorker]:
    worker = SandboxedWorker()
    yield worker
    worker.close()


def test_calls_share_one_process_which_is_not_ours(sandbox: SandboxedWorker) -> None:
    assert sandbox.call(slow.double, (21,), AMPLE) == 42
    first, second = (sandbox.call(slow.process, (), AMPLE) for _ in range(2))
    assert first == second != os.getpid()


def test_a_call_past_its_time_limit_is_none_and_its_process_is_killed(
    sandbox: SandboxedWorker,
) -> None:
    before = sandbox.call(slow.process, (), AMPLE)
    assert sandbox.call(slow.tower, (), SHORT) is None
    assert sandbox.call(slow.process, (), AMPLE) != before
    assert before is not None
    with pytest.raises(ProcessLookupError):  # killed and waited for: no zombie is left
        os.kill(before, 0)


@pytest.mark.parametrize("function", [slow.eat, slow.recurse, slow.die])
def test_a_call_out_of_memory_too_deep_or_in_a_dead_process_is_none(
    sandbox: SandboxedWorker, function: Callable[[], int | None]
) -> None:
    assert sandbox.call(function, (), AMPLE) is None
    assert sandbox.call(slow.double, (1,), AMPLE) == 2


def test_an_exception_of_the_function_is_raised(sandbox: SandboxedWorker) -> None:
    with pytest.raises(ZeroDivisionError, match="by nought"):
        sandbox.call(slow.fail, (), AMPLE)


def test_a_missing_library_names_the_extra(sandbox: SandboxedWorker) -> None:
    with pytest.raises(ImportError, match=r"no_such_library.*pip install 'vlrft\[math\]'"):
        sandbox.call(slow.double, (1,), AMPLE, ("no_such_library:thing",))
    assert sandbox.call(slow.double, (1,), AMPLE) == 2


def test_an_idle_worker_that_was_killed_starts_again(sandbox: SandboxedWorker) -> None:
    before = sandbox.call(slow.process, (), AMPLE)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert sandbox.call(slow.double, (4,), AMPLE) == 8


def test_any_thread_may_call(sandbox: SandboxedWorker) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda n: sandbox.call(slow.double, (n,), AMPLE), range(50))
    assert list(answers) == [2 * n for n in range(50)]
