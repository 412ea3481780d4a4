"""Calls within bounds: what breaks one is None, and the next call works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.grading.math import slow
from vlrft.grading import SandboxedWorker

AMPLE = 60.0  # seconds: no test waits for it unless something is wrong
SHORT = 0.2  # seconds: what a function that never ends is given


@pytest.fixture(scope="module")
def bounded() -> Iterator[SandboxedWorker]:
    worker = SandboxedWorker()
    yield worker
    worker.close()


def test_calls_share_one_process_which_is_not_ours(bounded: SandboxedWorker) -> None:
    assert bounded.call(slow.double, (21,), AMPLE) == 42
    first, second = (bounded.call(slow.process, (), AMPLE) for _ in range(2))
    assert first == second != os.getpid()


def test_a_late_call_is_none_and_its_process_is_gone(bounded: SandboxedWorker) -> None:
    before = bounded.call(slow.process, (), AMPLE)
    assert bounded.call(slow.tower, (), SHORT) is None
    assert bounded.call(slow.process, (), AMPLE) != before
    assert before is not None
    with pytest.raises(ProcessLookupError):  # killed and waited for: no zombie is left
        os.kill(before, 0)


@pytest.mark.parametrize("function", [slow.eat, slow.recurse, slow.die])
def test_out_of_memory_or_depth_or_dead_is_none(
    bounded: SandboxedWorker, function: Callable[[], int | None]
) -> None:
    assert bounded.call(function, (), AMPLE) is None
    assert bounded.call(slow.double, (1,), AMPLE) == 2


def test_a_bug_in_the_function_is_no_answer(bounded: SandboxedWorker) -> None:
    with pytest.raises(ZeroDivisionError, match="by nought"):
        bounded.call(slow.fail, (), AMPLE)


def test_a_missing_library_names_the_extra(bounded: SandboxedWorker) -> None:
    with pytest.raises(ImportError, match=r"no_such_library.*pip install 'vlrft\[math\]'"):
        bounded.call(slow.double, (1,), AMPLE, ("no_such_library:thing",))
    assert bounded.call(slow.double, (1,), AMPLE) == 2


def test_an_idle_worker_that_was_killed_starts_again(bounded: SandboxedWorker) -> None:
    before = bounded.call(slow.process, (), AMPLE)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert bounded.call(slow.double, (4,), AMPLE) == 8


def test_any_thread_may_call(bounded: SandboxedWorker) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda n: bounded.call(slow.double, (n,), AMPLE), range(50))
    assert list(answers) == [2 * n for n in range(50)]
