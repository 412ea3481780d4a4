"""Phases and the timer that adds up their seconds."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from vlrft.distributed.phases import ROOT, PhaseTimer, phase


class Time:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


def test_time_belongs_to_the_innermost_phase(clock: Time) -> None:
    @phase("inner")
    def work(seconds: float) -> None:
        clock.now += seconds

    with PhaseTimer(clock).running() as timer:
        clock.now += 1
        with phase("outer"):
            clock.now += 2
            work(4)
            work(8)
            clock.now += 16
        work(32)
    clock.now += 64
    work(128)
    assert timer.seconds == {ROOT: 1, "outer": 18, "outer/inner": 12, "inner": 32}


def test_a_phase_ends_when_its_block_raises(clock: Time) -> None:
    @phase("broken")
    def broken() -> None:
        clock.now += 1
        raise KeyError

    with PhaseTimer(clock).running() as timer:
        with pytest.raises(KeyError):
            broken()
        clock.now += 2
    assert timer.seconds == {"broken": 1, ROOT: 2}


def test_an_inner_timer_hides_its_phases_from_the_outer_one(clock: Time) -> None:
    with PhaseTimer(clock).running() as outer:
        with PhaseTimer(clock).running() as inner, phase("a"):
            clock.now += 1
        with phase("b"):
            clock.now += 2
    assert (inner.seconds["a"], outer.seconds.get("a"), outer.seconds["b"]) == (1, None, 2)


def test_a_phase_waits_for_the_device_and_is_marked(clock: Time) -> None:
    marks: list[str] = []

    def synchronize() -> None:
        clock.now += 1

    def mark(path: str) -> AbstractContextManager[object]:
        marks.append(path)
        return nullcontext()

    with PhaseTimer(clock, synchronize, mark).running() as timer, phase("a"), phase("b"):
        pass
    assert marks == ["a", "a/b"]
    assert timer.seconds == {ROOT: 2, "a": 2, "a/b": 1}
