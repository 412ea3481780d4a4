"""Servers that die, hang, refuse or come back, and servers of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewEngine, NewFake
from tests.rollout.engines.vllm.test_engine import SAMPLING, question
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.rollout.engines.vllm.server import State
from vlrft.schema.errors import ServerError
from vlrft.workers.memory import descendants

FAKE = (sys.executable, "-m", "vlrft.testing.fake_vllm")
QUICK = {"start_seconds": 0.3, "retries": 1}


def wait_until(reached: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_that_dies_hands_its_completions_to_another(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, dying, other = tiny("qwen2_vl"), new_fake(), new_fake()
    requests = [question(policy, f"{k}", seeds=range(4)) for k in range(4)]
    expected = new_engine(new_fake()).generate(requests, SAMPLING)
    engine = new_engine(dying, other, **QUICK)
    dying.set(die_after=3)
    assert [[p.ids for p in g] for g in engine.generate(requests, SAMPLING)] == [
        [p.ids for p in g] for g in expected
    ]
    assert any("its completions are sampled again" in line for line in engine.lines)  # type: ignore[attr-defined]


def test_a_run_stops_with_one_line_where_no_server_is_left(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    engine = new_engine(server, **QUICK)
    server.set(die_after=0)
    with pytest.raises(
        ServerError, match=r"^server 0 at http://\S+ is given up: .* was not ready within"
    ):
        engine.generate([question(tiny("qwen2_vl"))], SAMPLING)


def test_a_server_that_hangs_is_left_at_the_time_limit(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    hanging, other = new_fake(), new_fake()
    engine = new_engine(hanging, other, request_seconds=0.5)
    hanging.set(hang=True)
    (pieces,) = engine.generate([question(tiny("qwen2_vl"), seeds=range(6))], SAMPLING)
    assert len(pieces) == 6
    assert any("no answer from /inference/v1/generate within 0.5 s" in x for x in engine.lines)  # type: ignore[attr-defined]


def test_a_refused_update_is_sent_again_as_a_whole(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    server.set(refuse_updates=2)
    engine.load_weights(policy.weights(), 1)
    assert server.version.endswith("-1")
    assert server.paths().count("/start_weight_update") == 4


def test_an_update_that_no_server_takes_stops_the_run(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server, **QUICK)
    server.set(refuse_updates=99)
    with pytest.raises(ServerError, match=r"is given up: .*the weights are refused"):
        engine.load_weights(policy.weights(), 1)


def test_a_server_that_dies_in_an_update_leaves_the_other_one(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, dying, other = tiny("qwen2_vl"), new_fake(), new_fake()
    engine = new_engine(dying, other, **QUICK)
    dying.set(die_in_update=True)
    engine.load_weights(policy.weights(), 1)
    before = other.asked
    engine.generate([question(policy)], SAMPLING)
    assert other.asked == before + 3


@pytest.mark.parametrize("settings", [{}, {"transfer": "broadcast"}], ids=["file", "broadcast"])
def test_a_server_whose_engine_dies_in_an_update_is_noticed_by_its_health(
    tiny: Tiny,
    new_fake: NewFake,
    new_engine: NewEngine,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
) -> None:
    """Its update is never answered, and `update_seconds` is longer than the time limit of a test."""
    monkeypatch.setattr("vlrft.rollout.engines.vllm.health.LOOK_SECONDS", 0.05)
    policy, dying, other = tiny("qwen2_vl"), new_fake(), new_fake()
    engine = new_engine(dying, other, **QUICK, **settings)
    dying.set(engine_dies_in_update=True)
    engine.load_weights(policy.weights(), 1)
    wait_until(lambda: engine.servers[0].state is State.STARTING)
    reason = "no answer from /update_weights, and /health answers 503: its engine is dead"
    assert f"{engine.servers[0]}: {reason}" in engine.lines[0]  # type: ignore[attr-defined]
    before = other.asked
    engine.generate([question(policy)], SAMPLING)
    assert other.asked == before + 3


def test_caches_that_cannot_be_emptied_are_a_failed_update(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.rollout.engines.vllm.update.RESET_SECONDS", 0.0)
    monkeypatch.setattr("vlrft.rollout.engines.vllm.update.RESETS", 2)
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server, **QUICK)
    server.set(refuse_reset=True)
    with pytest.raises(ServerError, match="does not empty its prefix cache"):
        engine.load_weights(policy.weights(), 1)


def test_a_wrong_version_of_weights_is_a_failed_update(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server, **QUICK)
    server.set(version="default")
    with pytest.raises(ServerError, match="says that it has the weights 'default' after an update"):
        engine.load_weights(policy.weights(), 1)


def test_answers_of_a_server_that_was_started_again_unseen_are_not_used(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    (expected,) = engine.generate([question(policy)], SAMPLING)
    server.version, server.weights = "default", "of its start"
    (pieces,) = engine.generate([question(policy)], SAMPLING)
    assert [p.ids for p in pieces] == [p.ids for p in expected]  # it was given the weights again
    assert any("sampled with the weights 'default'" in line for line in engine.lines)  # type: ignore[attr-defined]


def own(policy: Policy, folder: Path, lines: list[str], **settings: object) -> VllmEngine:
    """An engine with a server of its own: the fake one, in a process."""
    kind = Vllm(command=FAKE, **settings)  # type: ignore[arg-type]
    engine = kind.build_at(policy, EnginePlace(folder=folder, say=lines.append, context=200))
    assert isinstance(engine, VllmEngine)
    engine.load_weights(policy.weights(), 0)
    return engine


def pid_at(engine: VllmEngine) -> int:
    assert engine.connection is not None
    assert engine.connection.supervisor is not None
    (process,) = engine.connection.supervisor.processes.values()
    return descendants(process.pid)[0]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_an_own_server_is_started_killed_revived_and_ended(tiny: Tiny, tmp_path: Path) -> None:
    policy, lines = tiny("qwen2_vl"), list[str]()
    engine = own(policy, tmp_path, lines)
    try:
        requests = [question(policy, seeds=range(4))]
        expected = [p.ids for p in engine.generate(requests, SAMPLING)[0]]
        first = pid_at(engine)
        httpx.post(f"{engine.servers[0].url}/fake", json={"hang": True})
        futures = engine.submit(requests[0], SAMPLING)
        os.kill(first, signal.SIGKILL)
        assert [f.result(60).ids for f in futures] == expected
        assert "(SIGKILL); last lines of" in lines[0]
        assert lines[-1].endswith("is back, with the current weights")
        second = pid_at(engine)
        os.kill(second, signal.SIGKILL)  # between completions
        wait_until(lambda: len(lines) >= 4)
        engine.load_weights(policy.weights(), 1)
        third = pid_at(engine)
    finally:
        engine.close()
    assert not any(map(is_alive, (first, second, third)))
    assert "a fake vLLM serves" in (tmp_path / "server_0.log").read_text()


@pytest.mark.parametrize(
    ("command", "code", "lines"),
    [
        ((sys.executable, "-c", "print('no such model'); raise SystemExit(3)"), 3, "no such model"),
        (("/none/vllm",), 127, "/none/vllm does not start: No such file or directory"),
    ],
)
def test_a_server_that_does_not_start_is_named_with_its_last_lines(
    tiny: Tiny, tmp_path: Path, command: tuple[str, ...], code: int, lines: str
) -> None:
    kind = Vllm(command=command)
    engine = kind.build_at(tiny("qwen2_vl"), EnginePlace(folder=tmp_path))
    with pytest.raises(
        ServerError, match=rf"has ended \(exit code {code}\); last lines of .*: {lines}"
    ):
        engine.load_weights(tiny("qwen2_vl").weights(), 0)


TRAINER = """
import sys, time
from pathlib import Path
from vlrft.workers.server_process import KeptFolder, ServerProcess

folder = KeptFolder(Path(sys.argv[1]) / "weights")
server = ServerProcess([sys.executable, "-c", "import time; time.sleep(600)"], log=Path(sys.argv[1]) / "log")
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_killed_trainer_leaves_neither_server_nor_weights(tmp_path: Path) -> None:
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout is not None
    keeper = int(trainer.stdout.readline())
    wait_until(lambda: bool(descendants(keeper)))
    pids = [keeper, *descendants(keeper)]
    assert (tmp_path / "weights").is_dir()
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    wait_until(lambda: not any(map(is_alive, pids)))
    wait_until(lambda: not (tmp_path / "weights").exists())
