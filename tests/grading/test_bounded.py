"""The worker process that bounds a call: what breaks it ends it, and the next call works."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.grading import slow
from vlrft.grading import Bounded

AMPLE = 60.0  # seconds: no test waits for it unless something is wrong
SHORT = 0.2  # seconds: what the functions that never end are given


@pytest.fixture(scope="module")
def bounded() -> Iterator[Bounded]:
    worker = Bounded()
    yield worker
    worker.close()


def test_a_call_returns_what_the_function_does(bounded: Bounded) -> None:
    assert bounded.call(slow.double, (21,), AMPLE) == 42
    assert bounded.call(slow.shout, (), AMPLE) == "said"


def test_calls_share_one_process_which_is_not_ours(bounded: Bounded) -> None:
    first, second = (bounded.call(slow.process, (), AMPLE) for _ in range(2))
    assert first == second == bounded.pid != os.getpid()


@pytest.mark.parametrize(
    ("function", "arguments"), [(slow.sleep, (3600.0,)), (slow.tower, ())], ids=["asleep", "busy"]
)
def test_a_late_call_is_none_and_its_process_is_gone(
    bounded: Bounded, function: object, arguments: tuple[object, ...]
) -> None:
    before = bounded.call(slow.process, (), AMPLE)
    assert callable(function)
    assert bounded.call(function, arguments, SHORT) is None
    assert bounded.pid is None
    assert bounded.call(slow.process, (), AMPLE) != before
    assert before is not None
    with pytest.raises(ProcessLookupError):  # killed and waited for: no zombie is left
        os.kill(before, 0)


@pytest.mark.parametrize("function", [slow.eat, slow.recurse, slow.die])
def test_a_call_out_of_memory_or_depth_or_dead_is_none(bounded: Bounded, function: object) -> None:
    assert callable(function)
    assert bounded.call(function, (), AMPLE) is None
    assert bounded.call(slow.double, (1,), AMPLE) == 2


def test_a_bug_in_the_function_is_no_answer(bounded: Bounded) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by nought"):
        bounded.call(slow.fail, (), AMPLE)
    with pytest.raises(ImportError, match="vlrft.math"):
        bounded.call(slow.miss, (), AMPLE)
    assert bounded.call(slow.double, (1,), AMPLE) == 2


def test_an_idle_worker_that_was_killed_starts_again(bounded: Bounded) -> None:
    before = bounded.call(slow.process, (), AMPLE)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert bounded.call(slow.double, (4,), AMPLE) == 8


def test_any_thread_may_call(bounded: Bounded) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda n: bounded.call(slow.double, (n,), AMPLE), range(50))
    assert list(answers) == [2 * n for n in range(50)]


def test_waiting_for_another_call_is_not_time_of_ones_own(bounded: Bounded) -> None:
    bounded.call(slow.double, (0,), AMPLE)
    late = threading.Thread(target=bounded.call, args=(slow.sleep, (3600.0,), 1.0))
    late.start()
    assert bounded.call(slow.double, (5,), AMPLE) == 10
    late.join()


def test_a_forked_child_does_not_use_its_parents_worker(bounded: Bounded) -> None:
    bounded.call(slow.double, (0,), AMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forking with threads: that is what is tried here
        child = os.fork()
    if child == 0:
        own = bounded.pid is None and bounded.call(slow.double, (3,), AMPLE) == 6
        bounded.close()
        os._exit(0 if own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bounded.call(slow.double, (6,), AMPLE) == 12


def test_a_closed_worker_is_gone_and_may_start_again() -> None:
    own = Bounded()
    before = own.call(slow.process, (), AMPLE)
    own.close()
    own.close()
    assert before is not None
    assert own.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert own.call(slow.double, (2,), AMPLE) == 4
    own.close()


def test_the_worker_ends_with_its_caller() -> None:
    """A caller that is killed leaves none behind: its end of the pipe closes, or the alarm rings."""
    own = Bounded()
    pid = own.call(slow.process, (), AMPLE)
    process = own._process
    own._pipe.close()  # what the kernel does for a killed caller
    assert process is not None
    assert process.wait(AMPLE) == 0
    assert pid == process.pid
    own.close()
