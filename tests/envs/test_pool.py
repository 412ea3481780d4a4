"""Environments in worker processes: equal results, shared processes, and nothing left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.envs.results import ECHO, comparable, has_ended, pid_of, start_all
from tests.fakes.envs import make_env, sample
from vlrft.envs import EnvFailure, EnvPool, Host, InProcess
from vlrft.envs.journal import EpisodeRecord
from vlrft.schema import Observation, Step


def play_script(host: Host) -> list[Any]:
    """Results of a few episodes in lockstep, some of which end early or fail."""
    started = host.start([sample(n) for n in ("a", "a", "b", "c", "d")])
    results: list[Any] = [comparable(first) for _, first in started]
    a, other, b, c, d = (handle for handle, _ in started)
    for texts in (
        {a: "left", other: "left", b: "up", c: "raise", d: "no step"},
        {b: "down", a: "right", c: "once more"},
        {a: "end", b: "end", other: "end"},
    ):
        turn = host.step(texts)
        assert set(turn) == set(texts)
        results += [comparable(turn[handle]) for handle in texts]
    host.close([a, b])
    host.close([other, c, d])
    return results


def test_results_equal_those_of_one_process() -> None:
    in_process, pool = InProcess(make_env), EnvPool(ECHO, 2, time_limit=20)
    expected, results = play_script(in_process), play_script(pool)
    pool.shutdown()
    assert results == expected
    assert sum(isinstance(result, EnvFailure) for result in expected) == 3


def test_environments_of_a_sample_share_a_process_and_processes_are_balanced() -> None:
    pool = EnvPool(ECHO, 3, time_limit=20)
    names = [n for n in "abcdef" for _ in range(2)]
    handles = start_all(pool, *map(sample, names))
    results = pool.step(dict.fromkeys(handles, "x"))
    pids = {
        name: {pid_of(results[h]) for h, n in zip(handles, names, strict=True) if n == name}
        for name in names
    }
    assert all(len(pids_of_sample) == 1 for pids_of_sample in pids.values())
    counts = [sum(pids_of_sample == {pid} for pids_of_sample in pids.values()) for pid in pool.pids]
    assert counts == [2, 2, 2]
    pool.step(dict.fromkeys(handles[2:4], "end"))  # b: its process has the fewest running
    (late, again) = start_all(pool, sample("late"), sample("c"))
    results = pool.step({late: "x", again: "x"})
    assert pid_of(results[late]) in pids["b"]
    assert pid_of(results[again]) in pids["c"]
    pool.shutdown()


def test_environments_of_a_sample_share_their_module_s_state() -> None:
    pool = EnvPool("tests.fakes.envs:counting", 2, time_limit=20)
    firsts = [first for _, first in pool.start([sample("a"), sample("b"), sample("a")])]
    assert [first.shown for first in firsts if isinstance(first, Observation)] == ["1", "1", "2"]
    pool.shutdown()


def test_processes_work_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for the other, so one after another they would hang."""
    (tmp_path / "meeting.py").write_text(MEETING)
    pool = EnvPool(f"{tmp_path}/meeting.py:task", 2, time_limit=10, start_limit=10)
    both = {"a": str(tmp_path / "b"), "b": str(tmp_path / "a")}
    started = pool.start([sample(n, mine=str(tmp_path / n), other=o) for n, o in both.items()])
    assert not [first for _, first in started if isinstance(first, EnvFailure)]
    pool.shutdown()


MEETING = """
import time
from pathlib import Path
from tests.fakes.envs import EchoEnv, task

class Meeting(EchoEnv):
    def start(self):
        Path(self.sample.info["mine"]).touch()
        while not Path(self.sample.info["other"]).exists():
            time.sleep(0.01)
        return self.show()

task = task(Meeting)
"""


def test_equal_images_are_one_object(pool: EnvPool) -> None:
    (_, one), (_, two) = pool.start([sample("a"), sample("a")])
    assert isinstance(one, Observation)
    assert isinstance(two, Observation)
    assert one.images[0] is two.images[0]
    assert one.images[0].getpixel((3, 3)) == (0, 0, 7)
    assert one.images[0].size == (16, 8)


def test_pictures_that_differ_in_their_palette_alone_stay_apart(tmp_path: Path) -> None:
    """Such pictures have the same indices, so that each was once shown as the first of them."""
    (tmp_path / "doors.py").write_text(DOORS)
    pool = EnvPool(f"{tmp_path}/doors.py:task", 1, time_limit=20)
    one, two = start_all(pool, sample("a"), sample("a"))
    results = pool.step({one: "red", two: "blue"})
    pool.shutdown()
    shown = [results[handle].observation.images[0].convert("RGB") for handle in (one, two)]  # type: ignore[union-attr]
    assert [image.getpixel((0, 0)) for image in shown] == [(255, 0, 0), (0, 0, 255)]


DOORS = """
from PIL import Image
from tests.fakes.envs import EchoEnv, task
from vlrft.schema import Observation, Step

class Doors(EchoEnv):
    def step(self, text):
        picture = Image.new("RGB", (8, 8), text).quantize(4)
        return Step(observation=Observation(messages=(), images=(picture,)))

task = task(Doors)
"""


def open_records(pool: EnvPool) -> dict[int, EpisodeRecord]:
    assert pool._dispatcher is not None
    return pool._dispatcher.schedule.records


def count_resources() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def test_a_hundred_episodes_leak_no_file_and_no_thread() -> None:
    before = count_resources()
    pool = EnvPool(ECHO, 2, time_limit=20)
    start_all(pool, sample("stays"))
    pool.step({0: "left"})
    resources: list[tuple[int, int]] = []
    for k in range(34):
        handles = start_all(pool, *map(sample, ("a", "b", "c")))
        pool.step(dict.fromkeys(handles, "left"))
        if k % 16 == 15:
            pool.step({handles[0]: "die"})
        pool.step(dict.fromkeys(handles, "end"))
        pool.close(handles)
        resources.append(count_resources())
        assert len(pool.pids) == 2
    assert resources[0] == resources[-1]
    records = open_records(pool)
    assert list(records) == [0]
    assert records[0].texts == ["left"]
    pool.shutdown()
    assert count_resources() == before


def test_shutdown_ends_the_processes_and_the_pool_can_start_again(pool: EnvPool) -> None:
    (old,) = start_all(pool, sample("a"))
    (pid,) = pool.pids
    pool.shutdown()
    assert not Path(f"/proc/{pid}").exists()
    assert pool.pids == []
    pool.close([old])
    assert start_all(pool, sample("a")) == [old + 1]


def test_a_pool_that_is_garbage_collected_ends_its_processes() -> None:
    pool = EnvPool(ECHO, 1)
    start_all(pool, sample("a"))
    (pid,) = pool.pids
    del pool
    assert has_ended(pid)


def test_an_interrupt_leaves_the_pool_usable(
    pool: EnvPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = start_all(pool, sample("a"))

    def interrupt(*args: object) -> None:
        assert pool._dispatcher is not None
        while not pool._dispatcher.schedule.busy:
            time.sleep(0.001)
        raise KeyboardInterrupt

    monkeypatch.setattr("vlrft.envs.pool.wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pool.step({a: "hang"})
    assert pool.pids == []
    with pytest.raises(KeyboardInterrupt):
        pool.start([sample("b", start="hang")])
    monkeypatch.undo()
    assert pool.pids == []
    assert isinstance(pool.step({a: "left"})[a], Step)
    assert list(open_records(pool)) == [a]


@pytest.mark.parametrize("busy", [False, True])
def test_processes_end_with_their_parent(busy: bool) -> None:
    script = f"""
import os, threading, time
from vlrft.envs import EnvPool
from tests.fakes.envs import sample
pool = EnvPool("{ECHO}", 1, time_limit=0.5, start_limit=0.5)
(handle, _), = pool.start([sample("a")])
print(*pool.pids, flush=True)
if {busy}:
    threading.Thread(target=lambda: pool.step({{handle: "hang"}}), daemon=True).start()
    time.sleep(0.2)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    in_time = has_ended(pid)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    assert in_time


def test_a_killed_parent_s_environments_are_closed_and_their_processes_ended(
    tmp_path: Path,
) -> None:
    (tmp_path / "games.py").write_text(GAMES)
    script = f"""
import os
from vlrft.envs import EnvPool
from tests.fakes.envs import sample
pool = EnvPool("{tmp_path}/games.py:task", 1, time_limit=20)
pool.start([sample("a", game="{tmp_path}/a"), sample("b", game="{tmp_path}/b")])
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script])
    games = [int((tmp_path / name).read_text()) for name in "ab"]
    left = [pid for pid in games if not has_ended(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    assert [(tmp_path / f"{name}.closed").exists() for name in "ab"] == [True, True]


def test_a_shutdown_closes_no_environment(tmp_path: Path) -> None:
    (tmp_path / "games.py").write_text(GAMES)
    for _ in range(3):
        pool = EnvPool(f"{tmp_path}/games.py:task", 1, time_limit=20)
        start_all(pool, sample("a", game=f"{tmp_path}/a"))
        pool.shutdown()
        assert has_ended(int((tmp_path / "a").read_text()))
    assert not (tmp_path / "a.closed").exists()


GAMES = """
import subprocess, sys
from pathlib import Path
from tests.fakes.envs import EchoEnv, task

class Games(EchoEnv):
    def start(self):
        game = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(self.sample.info["game"]).write_text(str(game.pid))
        return self.show()

    def close(self):
        Path(self.sample.info["game"] + ".closed").touch()

task = task(Games)
"""
