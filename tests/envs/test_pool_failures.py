"""Environments that kill or block their worker process: they fail, the others of that process are replayed."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.envs.results import ECHO, comparable, has_ended, message, pid_of, start_all
from tests.fakes.envs import make_env, sample
from vlrft.envs import EnvFailure, EnvPool, Host, InProcess
from vlrft.envs.process import EnvProcess
from vlrft.envs.worker_main import Call
from vlrft.schema import Observation, Step

LIMIT = 0.4  # seconds of a turn where one hangs


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("die", r"died with its process \(SIGKILL\) in turn 2; it may have run out of memory"),
        ("leave", r"died with its process \(exit code 3\) in turn 2"),
        ("hang", r"took longer than 0\.4 s and was killed in turn 2; .*task\.env\.time_limit"),
        ("fork and die", r"died with its process \(SIGKILL\) in turn 2"),
    ],
)
def test_the_culprit_is_named_and_the_others_continue(command: str, expected: str) -> None:
    names = ["first", "culprit", "last", "idle"]
    script = [
        dict.fromkeys("012", "left"),
        {"0": "right", "1": command, "2": "up"},
        dict.fromkeys("0123", "down"),
    ]
    without_culprit = [{k: t for k, t in texts.items() if k != "1"} for texts in script]

    def play_script(host: Host, script: Sequence[dict[str, str]]) -> list[dict[int, Any]]:
        handles = start_all(host, *map(sample, names))
        return [host.step({handles[int(k)]: t for k, t in texts.items()}) for texts in script]

    pool = EnvPool(ECHO, 1, time_limit=LIMIT if command == "hang" else 20)
    one, two, three = play_script(pool, script)
    undisturbed = play_script(InProcess(make_env), without_culprit)
    assert message(two[1]).startswith("sample culprit: its environment")
    assert re.search(expected, message(two[1]))
    assert three[1] == two[1]  # the failure is final
    for results, wanted in zip((one, two, three), undisturbed, strict=True):
        assert {k: comparable(r) for k, r in results.items() if k != 1} == {
            k: comparable(r) for k, r in wanted.items()
        }
    assert pid_of(one[0]) == pid_of(two[0]) != pid_of(two[2]) == pid_of(three[0])
    pool.shutdown()


def test_a_process_that_dies_between_calls_fails_no_environment(pool: EnvPool) -> None:
    names = ["a", "b", "over"]
    a, b, over = start_all(pool, *map(sample, names))
    results = pool.step({a: "left", b: "left", over: "end"})
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    assert has_ended(pid)
    results = pool.step({a: "right", b: "up"})
    in_process = InProcess(make_env)
    first, second, _ = start_all(in_process, *map(sample, names))
    in_process.step({first: "left", second: "left"})
    expected = in_process.step({first: "right", second: "up"})
    assert [comparable(results[h]) for h in (a, b)] == [
        comparable(expected[h]) for h in (first, second)
    ]
    assert pid_of(results[a]) == pid_of(results[b]) == pool.pids[0] != pid


def test_an_environment_of_a_dead_process_is_closed_without_a_replay(pool: EnvPool) -> None:
    a, bad = start_all(pool, sample("a"), sample("b"))
    pool.step({a: "left", bad: "die"})
    assert pool.pids == []
    pool.close([a, bad])
    assert pool.pids == []


@pytest.mark.parametrize("command", ["die", "hang"])
def test_a_start_and_a_close_that_take_their_process_down(command: str) -> None:
    pool = EnvPool(ECHO, 1, time_limit=LIMIT, start_limit=2 * LIMIT)
    started = pool.start([sample("a"), sample("bad", start=command), sample("b", close=command)])
    a, _, b = (handle for handle, _ in started)
    assert [isinstance(first, EnvFailure) for _, first in started] == [False, True, False]
    expected = (
        r"\(SIGKILL\) as it started" if command == "die" else r"longer than 0\.8 s .* as it started"
    )
    assert re.search(expected, message(started[1][1]))
    with pytest.warns(RuntimeWarning, match="sample b: .* as it was closed"):
        pool.close([b])
    result = pool.step({a: "left"})[a]
    assert isinstance(result, Step)
    assert isinstance(result.observation, Observation)
    assert result.observation.messages[0].content[1] == "a\nleft"
    pool.shutdown()


def test_a_process_over_its_memory_is_killed_and_the_others_continue() -> None:
    pool = EnvPool(ECHO, 1, time_limit=60, memory=2**28)
    good, bad = start_all(pool, sample("good"), sample("bad"))
    results = pool.step({good: "left", bad: "eat"})
    expected = r"bad: its environment used .* GB of memory, more than the limit of 0\.25 GB, and was killed in turn 1; "
    assert re.search(
        expected + r"make it smaller, or raise task\.env\.memory_gb", message(results[bad])
    )
    assert isinstance(results[good], Step)
    assert isinstance(pool.step({good: "right"})[good], Step)
    pool.shutdown()


@pytest.mark.parametrize(
    ("seconds", "start", "advice"), [(60.0, 120.0, " above 120"), (300.0, 300.0, "")]
)
def test_the_time_limit_moves_the_limit_of_a_start_and_the_message_says_from_where(
    seconds: float, start: float, advice: str
) -> None:
    process = EnvProcess("task", seconds, max(120.0, seconds))
    assert process._limit() == start
    assert process._advice() == f"raise task.env.time_limit{advice}"
    process.ready = True
    process.calls.append(Call(0, "a", 0, b"sample"))
    assert (process._limit(), process._advice()) == (start, f"raise task.env.time_limit{advice}")
    process.calls[0] = Call(0, "a", 1, "a turn")
    assert (process._limit(), process._advice()) == (seconds, "raise task.env.time_limit")


def test_an_episode_whose_replay_differs_fails_and_the_message_gives_the_rule(
    pool: EnvPool,
) -> None:
    random, good, bad = start_all(pool, sample("r", random=True), sample("g"), sample("b"))
    pool.step({random: "left", good: "left"})
    assert isinstance(pool.step({bad: "die"})[bad], EnvFailure)
    results = pool.step({random: "left", good: "left"})
    line = message(results[random])
    assert "sample r" in line
    assert "its result differed as it started; an environment may depend only on its sample" in line
    assert isinstance(results[good], Step)
    assert pool.step({random: "left"}) == {random: results[random]}


def test_the_order_of_sets_is_the_same_in_each_process(pool: EnvPool) -> None:
    unordered, bad = start_all(pool, sample("u", unordered=True), sample("b"))
    pool.step({unordered: "left", bad: "die"})
    assert isinstance(pool.step({unordered: "left"})[unordered], Step)


@pytest.mark.parametrize("command", ["die", "hang", "raise"])
def test_an_environment_that_fails_in_its_replay_fails_alone(tmp_path: Path, command: str) -> None:
    pool = EnvPool(ECHO, 1, time_limit=LIMIT if command == "hang" else 20)
    once = str(tmp_path / "once")
    worse, good, bad = start_all(pool, sample("w", once=once), sample("g"), sample("b"))
    pool.step({worse: f"second time: {command}", good: "left"})
    pool.step({bad: "die"})
    results = pool.step({worse: "left", good: "left"})
    expected = "KeyError" if command == "raise" else "in turn 1, replayed in a new process"
    assert expected in message(results[worse])
    assert isinstance(results[good], Step)
    pool.shutdown()


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("tests.fakes.envs:nothing", "cannot load the task .*PluginError.*no 'nothing'"),
        ("tests.fakes.envs:make_env", "cannot load the task .*expected a vlrft.schema.Task"),
        ("{folder}/dies.py:task", r"died \(exit code 7\)"),
        ("{folder}/exits.py:task", "cannot load the task .*SystemExit: 5"),
    ],
)
def test_a_process_that_cannot_start_fails_all_of_its_episodes(
    tmp_path: Path, task: str, expected: str
) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    (tmp_path / "dies.py").write_text(
        f"import os; open({str(starts)!r}, 'a').write('x'); os._exit(7)"
    )
    (tmp_path / "exits.py").write_text("import sys; sys.exit(5)")
    pool = EnvPool(task.format(folder=tmp_path), 1)
    lines = [message(first) for _, first in pool.start([sample("a"), sample("b")])]
    pattern = "^sample {}: its environment has no worker process: the worker {}"
    for name, line in zip("ab", lines, strict=True):
        assert re.search(pattern.format(name, expected), line)
    assert pool.pids == []
    assert starts.read_text() == ("x" if "dies" in task else "")  # one try for all of them


def test_without_an_interpreter_all_episodes_fail(
    pool: EnvPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    ((_, first),) = pool.start([sample("a")])
    assert re.search(r"the worker cannot be started \(.*No such file", message(first))
    monkeypatch.undo()
    assert start_all(pool, sample("a"))


def test_a_sample_that_cannot_be_sent_fails_alone(pool: EnvPool) -> None:
    (_, bad), (_, good) = pool.start([sample("a", lock=threading.Lock()), sample("b")])
    assert re.search("sample a: .*cannot pickle", message(bad))
    assert isinstance(good, Observation)


def test_a_result_that_cannot_be_unpickled_here_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PRIVATE_CLASS)
    pool = EnvPool(f"{tmp_path}/pack.py:task", 1)
    (_, bad), (_, good) = pool.start([sample("a", private=True), sample("b")])
    assert re.search("sample a: .*only its own process can read", message(bad))
    assert isinstance(good, Observation)
    pool.shutdown()


PRIVATE_CLASS = """
from vlrft.schema import Observation
from tests.fakes.envs import EchoEnv, task

class Private:
    pass

class Showing(EchoEnv):
    def show(self):
        return Observation(messages=(), anchor=Private() if self.sample.info else None)

task = task(Showing)
"""
