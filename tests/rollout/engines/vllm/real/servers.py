"""Servers of the real vLLM, which an engine starts and ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.workers.memory import descendants

ROOT = Path(__file__).parents[5]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
GONE_SECONDS = 15.0  # for the processes of a server that is ended
MARKS = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make vllm` makes the environment of vLLM"),
]


def corpus() -> list[str]:
    """Text for tokenizers."""
    pages = sorted((ROOT / "docs" / "howto").glob("*.md"))
    return [line for page in pages for line in page.read_text("utf-8").splitlines()]


@contextmanager
def start_engine(policy: Policy, folder: Path, **settings: Any) -> Iterator[VllmEngine]:
    """An engine with the weights of step 0, which leaves no process. `settings`: of the engine; without `urls` it starts a server."""
    if "urls" not in settings:
        settings |= {"python": str(PYTHON), "context": 2048}
    engine = Vllm(**settings).build_at(policy, EnginePlace(folder=folder))
    assert isinstance(engine, VllmEngine)
    try:
        engine.load_weights(policy.weights(), 0)
        yield engine
        left = server_pids(engine)
    finally:
        engine.close()
    deadline = monotonic() + GONE_SECONDS
    while left and monotonic() < deadline:
        left = [pid for pid in left if Path(f"/proc/{pid}").exists()]
        sleep(0.1)
    assert not left


def server_pids(engine: VllmEngine) -> list[int]:
    """The processes of the server that the engine has started, its API process first; none of a server at an address."""
    assert engine.connection is not None
    supervisor = engine.connection.supervisor
    assert supervisor is not None
    return [pid for keeper in supervisor.processes.values() for pid in descendants(keeper.pid)]
