"""Phases: whose time is whose."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from vlrft.tracing.phases import ROOT, PhaseTimer, phase


class Time:
    """A clock that moves when it is told to."""

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

    with PhaseTimer(clock).watching() as found:
        clock.now += 1
        with phase("outer"):
            clock.now += 2
            work(4)
            work(8)
            clock.now += 16
        work(32)
    clock.now += 64
    work(128)
    assert found.seconds == {ROOT: 1, "outer": 18, "outer/inner": 12, "inner": 32}


def test_a_phase_that_fails_is_over(clock: Time) -> None:
    @phase("broken")
    def broken() -> None:
        clock.now += 1
        raise KeyError

    with PhaseTimer(clock).watching() as found:
        with pytest.raises(KeyError):
            broken()
        clock.now += 2
    assert found.seconds == {"broken": 1, ROOT: 2}


def test_a_watcher_within_another_keeps_what_it_sees(clock: Time) -> None:
    with PhaseTimer(clock).watching() as outer:
        with PhaseTimer(clock).watching() as inner, phase("a"):
            clock.now += 1
        with phase("b"):
            clock.now += 2
    assert (inner.seconds["a"], outer.seconds.get("a"), outer.seconds["b"]) == (1, None, 2)


def test_what_a_device_still_does_is_waited_for_and_phases_are_marked(clock: Time) -> None:
    marks: list[str] = []

    def settle() -> None:
        clock.now += 1

    def mark(path: str) -> AbstractContextManager[object]:
        marks.append(path)
        return nullcontext()

    with PhaseTimer(clock, settle, mark).watching() as found, phase("a"), phase("b"):
        pass
    assert marks == ["a", "a/b"]
    assert found.seconds == {ROOT: 2, "a": 2, "a/b": 1}
