"""Servers that keep a run waiting are named: in the status of a rank, and in the run's log. With clocks that the tests move."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewEngine, NewFake
from tests.rollout.engines.vllm.test_engine import SAMPLING, question
from tests.rollout.engines.vllm.test_faults import wait_until
from vlrft.distributed.phases import notify
from vlrft.distributed.watchdog import RankStatus
from vlrft.rollout.engines.vllm.server import Server, State
from vlrft.rollout.engines.vllm.waits import SilenceLines, describe_waits


def shown(status: RankStatus) -> str:
    """The watchdog's status of servers."""
    return str(json.loads(status.to_json(1))["outside"])


def test_the_status_names_a_server_that_hangs_and_one_that_is_gone(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine, tmp_path: Path
) -> None:
    policy, status = tiny("qwen2_vl"), RankStatus()
    hanging, dying = new_fake(), new_fake()
    with notify(status):
        engine = new_engine(hanging, dying, retries=0)
        first, second = engine.servers
        first.log = tmp_path / "server_0.log"
        first.log.write_text("loading\n\nprefill of 3 requests\n")
        assert shown(status) == ""
        hanging.set(hang=True)
        engine.submit(question(policy), SAMPLING)
        assert hanging.wait_until(lambda server: server.asked == 3)
        first.heard_at -= 100
        assert shown(status) == (
            f"{first} has answered nothing for 100 s, with 3 completions under way "
            f"(last line of {first.log}: prefill of 3 requests)"
        )
        dying.die()
        engine.submit(question(policy, "and?"), SAMPLING)
        wait_until(lambda: second.state is State.STARTING)
        assert f"; {second} is starting for" in shown(status)
        engine.close()
    assert shown(status) == ""


def test_a_silent_server_is_said_after_a_minute_and_then_ever_more_rarely() -> None:
    server, lines = Server("server 0", "http://a"), SilenceLines()
    server.state, server.in_flight, server.heard_at = State.READY, 2, 1000.0
    said = [now for now in range(1000, 1500) if lines.due(server, float(now))]
    assert said == [1060, 1120, 1240, 1480]
    server.heard_at = 1500.0
    assert [now for now in range(1500, 1600) if lines.due(server, float(now))] == [1560]
    server.in_flight = 0
    assert not lines.due(server, 9999.0)


def test_an_idle_server_is_not_silent_when_it_is_asked_again(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    fake = new_fake()
    engine = new_engine(fake)
    (server,) = engine.servers
    server.heard_at -= 1000
    assert describe_waits(engine.servers, time.monotonic()) == ""
    fake.set(hang=True)
    engine.submit(question(tiny("qwen2_vl")), SAMPLING)
    assert fake.wait_until(lambda server: server.asked == 3)
    assert describe_waits(engine.servers, time.monotonic()) == ""
