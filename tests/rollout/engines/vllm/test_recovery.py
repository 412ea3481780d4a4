"""Servers that come back while steps go on, and completions that wait for new weights."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewEngine, NewFake
from tests.rollout.engines.vllm.test_engine import SAMPLING, question
from tests.rollout.engines.vllm.test_faults import wait_until
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Sampling
from vlrft.rollout.engines.vllm.broadcast import WeightBroadcast
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import LostServer, Server, State
from vlrft.rollout.engines.vllm.supervisor import Supervisor
from vlrft.rollout.engines.vllm.transfer import Update
from vlrft.rollout.engines.vllm.weights import WeightFiles
from vlrft.schema.errors import ServerError
from vlrft.workers.memory import descendants
from vlrft.workers.server_process import ServerProcess


class Returning(Supervisor):
    """A supervisor whose server starts for as long as the test wants."""

    def __init__(self, server: Server, pool: Pool, **settings: object) -> None:
        lines: list[str] = []
        unused = WeightBroadcast.__new__(WeightBroadcast)  # no weights go over
        super().__init__(Vllm(**settings), [server], [], pool, lines.append, unused)  # type: ignore[arg-type]
        self.lines = lines
        self.starts = 0
        self.started = asyncio.Event()
        self.sent: list[int] = []

    async def _wait_started(self, server: Server) -> None:
        self.starts += 1
        await self.started.wait()

    async def _update(self, server: Server) -> None:
        assert self.update is not None
        self.sent.append(self.update.step)


async def until(reached: object) -> None:
    for _ in range(1000):
        if reached():  # type: ignore[operator]
            return
        await asyncio.sleep(0)
    raise AssertionError


def test_a_server_that_starts_is_not_started_again_by_the_next_steps() -> None:
    async def run() -> None:
        starting, other = Server("server 0", "http://a"), Server("server 1", "http://b")
        pool = Pool([starting, other], 1, lambda server: None)
        supervisor = Returning(starting, pool)
        supervisor.servers = [starting, other]
        pool.on_lost = supervisor.lost
        other.state = starting.state = State.READY
        await supervisor.push(Update(run="r", step=0))
        await pool.set_state(starting, State.LOST, "gone")
        await until(lambda: supervisor.starts == 1)
        for step in (1, 2, 3):
            await supervisor.push(Update(run="r", step=step))
            await until(lambda: starting.state is State.STARTING)
        assert supervisor.starts == 1
        assert supervisor.sent == [0, 0, 1, 2, 3]
        supervisor.started.set()
        await until(lambda: starting.state is State.READY)
        assert supervisor.sent[-1] == 3  # the weights of today
        await supervisor.close()

    asyncio.run(run())


class Failing(Returning):
    async def _wait_started(self, server: Server) -> None:
        self.starts += 1
        raise self.error

    error: Exception = LostServer("it does not start")


def test_a_server_is_restarted_only_so_often_in_a_run() -> None:
    async def run() -> None:
        dying, other = Server("server 0", "http://a"), Server("server 1", "http://b")
        pool = Pool([dying, other], 1, lambda server: None)
        supervisor = Failing(dying, pool, retries=0, max_restarts=2)
        supervisor.servers = [dying, other]
        supervisor.restarts = {dying: 0}  # started here
        dying.state = State.LOST
        other.state = State.READY
        for step in range(5):
            await supervisor.push(Update(run="r", step=step))
            await until(lambda: dying.state is State.GIVEN_UP and not supervisor.revivals)
        assert supervisor.starts == 2
        last = "server 0 at http://a is given up for the rest of the run, after 2 restarts"
        assert sum(last in line for line in supervisor.lines) == 1
        assert last in dying.reason
        await supervisor.close()

    asyncio.run(run())


def test_an_exit_code_that_is_no_signal_is_reported() -> None:
    async def describe() -> str:
        server = Server("server 0", "http://a")
        supervisor = Failing(server, Pool([server], 1, lambda lost: None))
        ended = SimpleNamespace(exit_code=255, log="log", last_lines=lambda: "out of memory")
        supervisor.processes[server] = ended  # type: ignore[assignment]
        return supervisor._describe_end(server)

    line = "server 0 at http://a has ended (exit code 255); last lines of log: out of memory"
    assert asyncio.run(describe()) == line


def test_an_unforeseen_error_gives_a_server_up_in_place_of_waiting_for_ever() -> None:
    async def run() -> None:
        server = Server("server 0", "http://a")
        pool = Pool([server], 1, lambda server: None)
        supervisor = Failing(server, pool)
        supervisor.error = OSError("no room for a log")
        server.state = State.LOST
        with pytest.raises(ServerError, match="is given up: OSError: no room for a log"):
            await asyncio.wait_for(supervisor.push(Update(run="r", step=0)), 5)

    asyncio.run(run())


def test_whoever_waits_for_an_idle_server_is_told_behind_a_queue_of_completions() -> None:
    async def run() -> None:
        server = Server("server 0", "http://a")
        server.state = State.READY
        pool = Pool([server], 2, lambda server: None)
        await pool.set_open(True)
        assert await pool.take(None) is server
        await pool.set_open(False)
        waiting: Sequence[asyncio.Task[Server]] = [
            asyncio.ensure_future(pool.take(None)) for _ in range(9)
        ]
        await asyncio.sleep(0)
        idle = asyncio.ensure_future(pool.wait_idle(server))
        await asyncio.sleep(0)
        await pool.give(server)
        await asyncio.wait_for(idle, 5)
        for task in waiting:
            task.cancel()

    asyncio.run(run())


def test_completions_that_go_on_after_an_update_name_the_new_adapter(
    lora_policy: Policy, new_fake: NewFake, new_engine: NewEngine
) -> None:
    names, vision = lora_policy.trained_names, lora_policy.chat.vision
    assert vision is not None
    lora_policy.trained_names = tuple(n for n in names if not vision.is_vision(n))
    try:
        server = new_fake()
        engine = new_engine(server, policy=lora_policy, lora="adapter")
        server.set(hang_after=2)
        futures = engine.submit(question(lora_policy, seeds=range(8)), Sampling(max_tokens=40))
        assert server.wait_until(lambda s: s.running == 8)
        engine.load_weights(lora_policy.weights(), 1)
        server.set(hang_after=None)
        assert {len(future.result(20).ids) > 2 for future in futures} == {True}
    finally:
        lora_policy.trained_names = names


def test_a_server_that_comes_back_is_given_the_base_of_its_adapter_again(
    lora_policy: Policy, new_fake: NewFake, new_engine: NewEngine
) -> None:
    names, vision = lora_policy.trained_names, lora_policy.chat.vision
    assert vision is not None
    lora_policy.trained_names = tuple(n for n in names if not vision.is_vision(n))
    try:
        server = new_fake()
        engine = new_engine(server, policy=lora_policy, lora="adapter")
        base = server.weights
        server.version, server.weights = "default", "of its start"  # it was started again
        server.adapters.clear()
        engine.load_weights(lora_policy.weights(), 1)
        engine.generate([question(lora_policy)], SAMPLING)
        assert server.weights == base
    finally:
        lora_policy.trained_names = names


def test_a_servers_environment_is_on_no_command_line(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-secret-of-the-user")
    server = ServerProcess(
        [sys.executable, "-c", "import os; print(os.environ['SOME_API_KEY'])"], log=tmp_path / "log"
    )
    try:
        wait_until(lambda: server.exit_code is not None or bool(descendants(server.pid)))
        seen = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    finally:
        wait_until(lambda: server.exit_code is not None)
        server.stop()
    assert b"a-secret" not in seen
    assert (tmp_path / "log").read_text().strip() == "a-secret-of-the-user"


def test_only_the_user_can_read_weights_in_shared_memory(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.rollout.engines.vllm.folder.SHARED_MEMORY", tmp_path)
    own = WeightFiles(tiny("qwen2_vl"), None, "run", adapters=False)
    chosen = WeightFiles(tiny("qwen2_vl"), str(tmp_path / "disk"), "run", adapters=False)
    try:
        assert own.open_folder().stat().st_mode & 0o077 == 0
        assert chosen.open_folder().stat().st_mode & 0o777 == 0o777 & ~_umask()
    finally:
        own.close()
        chosen.close()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_tokens_of_an_adapter_that_was_replaced_meanwhile_are_asked_for_again(
    lora_policy: Policy, new_fake: NewFake, new_engine: NewEngine
) -> None:
    """As on a rank that does not pause the servers itself: its request named the adapter before."""
    server = new_fake()
    engine = new_engine(server)
    (expected,) = engine.generate([question(lora_policy, seeds=[3])], SAMPLING)
    old = replace(engine._current(), adapter=Path("old"))
    server.adapters = {old.version: "other tokens"}
    server.faults.hang = True
    engine._update = old
    (future,) = engine.submit(question(lora_policy, seeds=[3]), SAMPLING)
    assert server.wait_until(lambda s: s.asked == 2)
    engine._update = replace(old, step=1, adapter=None)
    server.version = engine._update.version
    server.set(hang=False)
    assert future.result(20).ids == expected[0].ids
    assert server.asked == 3
