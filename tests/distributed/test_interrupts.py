"""Signals that wait for the end of a step, without a run."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from vlrft.distributed.interrupts import STOP_SIGNALS, Interrupted, deferred_signals, interrupt


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_first_signal_is_only_noted_and_a_second_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    said: list[str] = []
    with deferred_signals(said.append) as request:
        assert request.number == 0
        send(number)
        assert request.number == number
        with pytest.raises(KeyboardInterrupt):
            send(number)
    assert signal.getsignal(number) is before
    for _ in range(100):
        if said:
            break
        time.sleep(0.01)  # the line is printed by a thread
    again = "press ctrl-C again" if number == signal.SIGINT else "send it again"
    assert said == [f"{number.name}: stopping after this step; {again} to stop now"]


def test_a_second_signal_reaches_the_handler_of_the_command() -> None:
    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        with deferred_signals(str) as request:
            send(signal.SIGTERM)
            assert request.number == signal.SIGTERM
            with pytest.raises(Interrupted) as stop:
                send(signal.SIGTERM)
            assert stop.value.exit_code == 143
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # a third ends the process
    finally:
        signal.signal(signal.SIGTERM, old)


def test_signals_that_are_ignored_or_handled_by_others_are_left_alone() -> None:
    seen: list[int] = []
    old = (
        signal.signal(signal.SIGHUP, signal.SIG_IGN),  # as nohup does
        signal.signal(signal.SIGTERM, lambda number, _: seen.append(number)),
    )
    try:
        with deferred_signals(str) as request:
            send(signal.SIGHUP)
            send(signal.SIGTERM)
            assert (request.number, seen) == (0, [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGHUP, old[0])
        signal.signal(signal.SIGTERM, old[1])


def test_another_thread_than_the_main_one_installs_no_handlers() -> None:
    handlers: list[object] = []

    def work() -> None:
        with deferred_signals(str):
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]
