"""A rank whose connection to another breaks, or that meets no other, ends with a line of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.distributed import session
from vlrft.distributed.ranks import Ranks, join_ranks
from vlrft.schema import DataError
from vlrft.schema.errors import RanksError


class Silent:
    """A watchdog that watches nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @contextmanager
    def watching(self) -> Iterator[None]:
        yield


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr(session, "join_ranks", lambda device, timeout: Ranks(rank=1, size=2))
    monkeypatch.setattr(session, "Watchdog", Silent)
    monkeypatch.setattr(session, "_store", lambda: None)
    monkeypatch.setattr(session, "GRACE", 0.0)
    return load_config("tests/fixtures/ranks.yaml")


def test_a_broken_connection_is_told_as_a_lost_rank(config: Config) -> None:
    broken = RuntimeError("[…/gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer")
    with pytest.raises(RanksError) as caught, session.rank_session(config):
        raise broken
    assert caught.value.__cause__ is broken
    assert str(caught.value).startswith("rank 1 of 2: the connection to another rank broke")
    assert "--resume continues" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shape"),
        DataError("a row about gloo"),
        FileNotFoundError(2, "No such file", "/data/igloo/1.png"),
    ],
)
def test_another_error_stays_as_it_is(config: Config, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, session.rank_session(config):
        raise error
    assert caught.value is error


def test_ranks_that_cannot_meet_are_told_where(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(RanksError, match=r"rank 1: the other ranks cannot be met at None:1 \("):
        join_ranks("cpu", timeout=1.0)


@pytest.mark.parametrize("backends", ["cuda:fake", "cpu:fake,cuda:fake"])
def test_ranks_that_are_joined_already_have_to_exchange_cpu_tensors(backends: str) -> None:
    dist.init_process_group(backends, rank=1, world_size=2, store=FakeStore())
    try:
        if "cpu" in backends:
            assert join_ranks("cuda", timeout=1.0) == Ranks(rank=1, size=2)
        else:
            with pytest.raises(RanksError, match=r"backend cuda:fake, .*'cpu:gloo,cuda:nccl'"):
                join_ranks("cuda", timeout=1.0)
    finally:
        dist.destroy_process_group()


def test_ranks_that_somebody_else_has_joined_stay_joined(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "join_ranks", join_ranks)
    dist.init_process_group("cpu:fake,cuda:fake", rank=1, world_size=2, store=FakeStore())
    try:
        with session.rank_session(config) as ranks:
            assert ranks == Ranks(rank=1, size=2)
        assert dist.is_initialized()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
