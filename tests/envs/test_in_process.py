"""Environments in the process of the tests."""

from __future__ import annotations

import pytest

from tests.envs.results import start_all
from tests.fakes.envs import sample
from vlrft.envs import InProcess
from vlrft.schema import Observation, Sample, Step


def test_an_interrupt_passes_through_and_the_started_environments_are_closed() -> None:
    closed: list[str] = []

    class Env:
        def __init__(self, sample: Sample) -> None:
            self.id = sample.id

        def start(self) -> Observation:
            if self.id == "b":
                raise KeyboardInterrupt
            return Observation(messages=())

        def step(self, text: str) -> Step:
            raise KeyboardInterrupt

        def close(self) -> None:
            closed.append(self.id)

    host = InProcess(Env)
    with pytest.raises(KeyboardInterrupt):
        host.start([sample("a"), sample("b")])
    assert closed == ["a", "b"]
    (handle,) = start_all(host, sample("c"))
    with pytest.raises(KeyboardInterrupt):
        host.step({handle: ""})
    host.shutdown()
    assert closed == ["a", "b", "c"]
