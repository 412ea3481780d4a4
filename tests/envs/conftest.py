from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.envs.results import ECHO
from tests.fakes.envs import make_env
from vlrft.envs import EnvPool, Host, InProcess


@pytest.fixture
def pool() -> Iterator[EnvPool]:
    pool = EnvPool(ECHO, 1, time_limit=20)
    yield pool
    pool.shutdown()


@pytest.fixture(params=["in process", "pool"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    in_process = request.param == "in process"
    host: Host = InProcess(make_env) if in_process else EnvPool(ECHO, 2, time_limit=20)
    yield host
    host.shutdown()
