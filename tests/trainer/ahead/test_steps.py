"""Jobs of consecutive steps: paced by weights, taken in order, ended together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vlrft.trainer.ahead.steps import JobStopped, StepsAhead, Turns


class Gate:
    """Jobs that begin at once and end when the test says so; the result of a step is (step, version)."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.open = {step: threading.Event() for step in range(20)}
        self.changed = threading.Condition()

    def __call__(self, step: int, version: int) -> tuple[int, int]:
        with self.changed:
            self.begun.append((step, version))
            self.changed.notify_all()
        assert self.open[step].wait(20)
        return step, version

    def wait_for(self, *steps: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: sorted(s for s, _ in self.begun) == [*steps], 20)


@contextmanager
def steps(gate: Gate, ahead: int, last: int = 9) -> Iterator[StepsAhead[tuple[int, int]]]:
    jobs = StepsAhead(gate, ahead=ahead, first=1, last=last)
    yield jobs
    for event in gate.open.values():
        event.set()
    jobs.join()


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_step_begins_when_the_weights_of_the_step_before_its_limit_are_out(ahead: int) -> None:
    gate = Gate()
    with steps(gate, ahead) as jobs:
        jobs.release(0)
        gate.wait_for(*range(1, 2 + ahead))
        for step in range(1, 5):
            gate.open[step].set()
            version = max(step - 1 - ahead, 0)
            assert jobs.take(step) == (step, version)
            gate.wait_for(*range(1, step + 1 + ahead))  # its weights are not out yet
            jobs.release(step)
            gate.wait_for(*range(1, step + 2 + ahead))


def test_no_step_after_the_last_is_begun() -> None:
    gate = Gate()
    with steps(gate, 4, last=3) as jobs:
        jobs.release(0)
        gate.wait_for(1, 2, 3)
        jobs.release(1)
        gate.wait_for(1, 2, 3)
        assert sorted(step for step, _ in gate.begun) == [1, 2, 3]


def test_a_step_that_ends_early_waits_for_its_turn_to_be_taken() -> None:
    gate = Gate()
    with steps(gate, 2) as jobs:
        jobs.release(0)
        gate.open[3].set()
        gate.open[2].set()
        gate.open[1].set()
        assert [jobs.take(step)[0] for step in (1, 2, 3)] == [1, 2, 3]


def test_an_error_is_raised_where_its_step_is_taken_and_not_before() -> None:
    def fail(step: int, version: int) -> int:
        if step == 2:
            raise ValueError("sample s2: broken")
        return step

    jobs = StepsAhead(fail, ahead=2, first=1, last=3)
    jobs.release(0)
    assert jobs.take(1) == 1
    with pytest.raises(ValueError, match="sample s2"):
        jobs.take(2)
    assert jobs.take(3) == 3


def test_progress_is_reported_while_a_step_is_waited_for() -> None:
    gate, seen = Gate(), threading.Event()
    jobs = StepsAhead(gate, ahead=1, first=1, last=2, progress=seen.set)
    jobs.release(0)
    taken: list[object] = []
    taker = threading.Thread(target=lambda: taken.append(jobs.take(1)))
    taker.start()
    jobs.advance()
    assert seen.wait(20)
    assert not taken
    for step in (1, 2):
        gate.open[step].set()
    taker.join()
    assert taken == [(1, 0)]


def test_time_in_which_nothing_runs_is_counted() -> None:
    now = [0.0]
    jobs = StepsAhead(lambda step, version: step, ahead=1, first=1, last=4, clock=lambda: now[0])
    now[0] = 2.0
    jobs.release(0)
    assert (jobs.take(1), jobs.take(2)) == (1, 2)
    now[0] = 7.0
    jobs.release(1)
    assert jobs.idle_seconds == 2.0 + 5.0


def test_turns_go_from_step_to_step() -> None:
    turns, order = Turns(1), []

    def work(step: int) -> None:
        turns.wait(step)
        order.append(step)
        turns.end(step)
        turns.end(step)

    threads = [threading.Thread(target=work, args=(step,)) for step in (3, 2, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3]


def test_whoever_waits_for_a_turn_is_stopped_when_the_run_ends() -> None:
    turns, ended = Turns(1), threading.Event()

    def work() -> None:
        with pytest.raises(JobStopped):
            turns.wait(2)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    turns.close()
    assert ended.wait(20)
    thread.join()
