"""Single steps of worker processes: a busy process holds up none of the environments that others can take."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from tests.envs.results import ECHO, comparable, message, pid_of, start_all
from tests.fakes.envs import make_env, sample
from vlrft.envs import EnvPool, Host, InProcess
from vlrft.envs.journal import EpisodeRecord
from vlrft.envs.process import EnvProcess
from vlrft.envs.schedule import Schedule
from vlrft.envs.worker_main import Call
from vlrft.schema import Observation, Step


def record_of(pool: EnvPool, handle: int) -> EpisodeRecord:
    assert pool._dispatcher is not None
    return pool._dispatcher.schedule.records[handle]


def test_single_steps_give_what_steps_of_all_give(host: Host) -> None:
    names = ("a", "a", "b", "c")
    together = start_all(host, *map(sample, names))
    begun = host.begin([sample(name) for name in names])
    assert [comparable(first.result()) for _, first in begun] == [
        comparable(first) for _, first in InProcess(make_env).start([sample(n) for n in names])
    ]
    alone = [handle for handle, _ in begun]
    for texts in (("left", "right", "raise", "no step"), ("up", "end", "down", "end")):
        expected = host.step(dict(zip(together, texts, strict=True)))
        futures = [host.submit(h, text) for h, text in zip(alone, texts, strict=True)]
        assert [comparable(f.result()) for f in futures] == [
            comparable(expected[h]) for h in together
        ]
    with pytest.raises(KeyError):
        host.submit(max(alone) + 1, "left").result()


def test_environments_of_a_busy_process_move_to_an_idle_one(tmp_path: Path) -> None:
    latch = tmp_path / "latch"
    pool = EnvPool(ECHO, 2, time_limit=20, move_seconds=0.0)
    slow, other, moved = start_all(pool, *map(sample, ("a", "b", "c")))
    first = pool.step({slow: "left", other: "left", moved: "left"})
    assert pid_of(first[slow]) == pid_of(first[moved]) != pid_of(first[other])
    asleep = pool.submit(slow, f"await {latch}")
    second = pool.submit(moved, "right").result()
    third = pool.submit(moved, "up").result()
    assert pid_of(second) == pid_of(third) == pid_of(first[other])
    assert not asleep.done()
    in_process = InProcess(make_env)
    (copy,) = start_all(in_process, sample("c"))
    wanted = [in_process.step({copy: text})[copy] for text in ("left", "right", "up")]
    assert [comparable(s) for s in (first[moved], second, third)] == list(map(comparable, wanted))
    latch.touch()
    assert pid_of(asleep.result()) == pid_of(first[slow])
    pool.close([slow, other, moved])
    pool.shutdown()


@pytest.mark.parametrize("trouble", ["random", "die"])
def test_an_environment_whose_replay_fails_elsewhere_waits_for_its_own_process(
    tmp_path: Path, trouble: str
) -> None:
    latch = tmp_path / "latch"
    info = {"random": True} if trouble == "random" else {"once": str(tmp_path / "once")}
    pool = EnvPool(ECHO, 2, time_limit=20, move_seconds=0.0)
    slow, other, stays = start_all(pool, sample("a"), sample("b"), sample("c", **info))
    first = pool.step({stays: "left" if trouble == "random" else "second time: die"})[stays]
    asleep = pool.submit(slow, f"await {latch}")
    waiting = pool.submit(stays, "right")
    while record_of(pool, stays).movable:
        assert not waiting.done()
        time.sleep(0.005)
    assert not waiting.done()
    assert isinstance(pool.submit(other, "left").result(), Step)
    latch.touch()
    assert pid_of(waiting.result()) == pid_of(first) == pid_of(asleep.result())
    pool.shutdown()


class FakeProcess(EnvProcess):
    """Takes calls, and never answers."""

    def __init__(self) -> None:
        super().__init__("nothing", 60, 60)

    def send(self, calls: Iterable[Call]) -> None:
        self.calls.extend(calls)


@pytest.mark.parametrize("movable", [True, False])
def test_a_call_moves_after_the_time_of_its_replay_and_only_if_its_caller_does_not_wait_for_all(
    movable: bool,
) -> None:
    clock = [100.0]
    schedule = Schedule([FakeProcess(), FakeProcess()], 0.5, clock=lambda: clock[0])
    schedule.records = {
        0: EpisodeRecord("a", b"", 0, live=True),
        1: EpisodeRecord("b", b"", 0, live=True, texts=["x"], digests=[b"s", b"1"], seconds=2.0),
    }
    schedule.step({0: "slow", 1: "y"}, {0: Future(), 1: Future()}, movable)
    first, second = schedule.workers
    schedule.assign()
    clock[0] += 2.4
    schedule.assign()
    assert [call.payload for call in first.process.calls] == ["slow"]
    assert not second.process.calls
    clock[0] += 0.2
    schedule.assign()
    payloads = [(call.payload, call.replay) for call in second.process.calls]
    assert payloads == ([(b"", True), ("x", True), ("y", False)] if movable else [])


@pytest.mark.parametrize("command", ["die", "hang"])
def test_a_lost_process_fails_its_own_call_only(command: str) -> None:
    limit = 0.4 if command == "hang" else 20
    pool = EnvPool(ECHO, 1, time_limit=limit, start_limit=20)
    bad, good, more = start_all(pool, *map(sample, "abc"))
    futures = [pool.submit(bad, command), pool.submit(good, "left"), pool.submit(more, "left")]
    failure, *steps = [future.result() for future in futures]
    assert message(failure).startswith("sample a: its environment")
    assert all(isinstance(step, Step) for step in steps)
    pool.shutdown()


def test_a_close_cuts_off_the_call_of_its_environment_and_no_other(tmp_path: Path) -> None:
    pool = EnvPool(ECHO, 1, time_limit=60)
    asleep, good = start_all(pool, sample("a"), sample("b"))
    futures = [pool.submit(asleep, f"await {tmp_path}/never"), pool.submit(good, "left")]
    pool.close([asleep])
    with pytest.raises(CancelledError):
        futures[0].result()
    assert isinstance(futures[1].result(), Step)
    queued = pool.submit(good, f"await {tmp_path}/never"), pool.begin([sample("c")])[0][1]
    pool.shutdown()
    for future in queued:
        with pytest.raises(CancelledError):
            future.result()


def test_a_slow_start_holds_up_no_other(tmp_path: Path) -> None:
    latch = tmp_path / "latch"
    pool = EnvPool(ECHO, 2, time_limit=20, move_seconds=0.0)
    (_, slow), *others = pool.begin(
        [sample("a", start=f"await {latch}"), *map(sample, ("b", "a", "c", "d"))]
    )
    assert all(isinstance(first.result(), Observation) for _, first in others)
    assert not slow.done()
    latch.touch()
    assert isinstance(slow.result(), Observation)
    pool.shutdown()
