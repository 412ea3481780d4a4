"""The choice of a host for a task, and the hosts that a run shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.envs.results import ECHO
from tests.fakes.envs import echo, sample, single_turn
from vlrft.envs import EnvPool, EnvRegistry, InProcess, SingleTurn, build_host
from vlrft.plugins.find import find_task
from vlrft.schema import Observation


def test_the_host_fits_the_task_and_its_workers_find_it_by_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack.py").write_text(
        "from tests.fakes.envs import EchoEnv, task\ntask = task(EchoEnv)\n"
    )
    assert isinstance(build_host(echo, workers=0, time_limit=None, reference=ECHO), InProcess)
    reference = "tests.fakes.envs:single_turn"
    alone = build_host(single_turn, workers=2, time_limit=None, reference=reference)
    assert isinstance(alone, InProcess)
    ((_, first),) = alone.start([sample("a")])
    assert first == SingleTurn(sample("a")).start()
    monkeypatch.chdir(tmp_path)
    for reference in (ECHO, "./pack.py", "./pack.py:task"):
        monkeypatch.chdir(tmp_path)
        pool = build_host(echo, workers=1, time_limit=5, reference=reference)
        monkeypatch.chdir("/")
        assert isinstance(pool, EnvPool)
        ((_, first),) = pool.start([sample("a")])
        assert isinstance(first, Observation)
        pool.shutdown()


def test_tasks_of_a_run_share_their_hosts() -> None:
    hosts = EnvRegistry()
    task = find_task("gridworld")
    pool = hosts.host_for(task, workers=1, time_limit=None, reference="gridworld")
    assert hosts.host_for(task, workers=1, time_limit=None, reference="gridworld") is pool
    assert hosts.host_for(task, workers=2, time_limit=None, reference="gridworld") is not pool
    assert isinstance(pool, EnvPool)
    pool.start([task.load("test", task.options())[0]])
    (pid,) = pool.pids
    hosts.shutdown()
    assert pool.pids == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
