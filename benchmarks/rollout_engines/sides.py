"""Policies of three sizes, and the two engines that sample with them, measured in processor seconds of all their processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import RolloutEngine, close_rollout_engine
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.workers.memory import descendants

SIZES: dict[str, BuildConfig] = {
    "1 M": BuildConfig(),
    "100 M": BuildConfig(
        hidden_size=768, intermediate_size=2048, layers=14, heads=12, kv_heads=2, vision_width=384, vision_layers=6,
        vision_heads=6, vocab_size=4096, init_scale=1.0,
    ),
    "500 M": BuildConfig(
        hidden_size=1280, intermediate_size=3584, layers=27, heads=20, kv_heads=4, vision_width=384, vision_layers=6,
        vision_heads=6, vocab_size=4096, init_scale=1.0,
    ),
}  # fmt: skip
QUESTION = "Which digit is this? Think first, then answer with a number from 0 to 9."
ENGINES = ("hf", "vllm")
TICKS = os.sysconf("SC_CLK_TCK")
WORDS = "the cat sat on a mat and looked at seven small red boxes near the old green door "


def make_policy(size: str, texts: list[str] | None = None) -> Policy:
    """A Qwen2-VL of that size with random weights in float32."""
    corpus = texts or [QUESTION, *(f"{WORDS}{k}" for k in range(64))]
    return load_policy(PolicyConfig(build=SIZES[size], dtype="float32"), corpus=corpus, seed=0)


def server_settings(python: str, context: int) -> Vllm:
    """One server of vLLM on one thread, as the trainer's process is."""
    thread = ("env", "-u", "PYTHONPATH", "OMP_NUM_THREADS=1")
    command = (*thread, python, "-m", "vllm.entrypoints.cli.main")
    return Vllm(command=command, context=context, start_seconds=900.0)


@contextmanager
def open_engine(
    name: str, policy: Policy, python: str, context: int = 1024
) -> Iterator[RolloutEngine]:
    """The engine, with the policy's weights."""
    if name == "hf":
        yield HfEngine(policy)
        return
    engine = server_settings(python, context).build_at(policy, EnginePlace(say=_say))
    try:
        engine.load_weights(policy.weights(), 0)
        yield engine
    finally:
        close_rollout_engine(engine)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class TreeMeter:
    """Seconds, and processor seconds of this process and of all that it started, since it was made."""

    def __init__(self) -> None:
        self._start, self._own, self._others = time.perf_counter(), time.process_time(), _others()

    def read(self) -> dict[str, Any]:
        """Raises RuntimeError where a process has ended, whose time is lost."""
        seconds, own, others = time.perf_counter() - self._start, time.process_time(), _others()
        if not self._others.keys() <= others.keys():
            raise RuntimeError("a server or a worker ended within a measurement; measure again")
        own -= self._own
        spent = sum(others.values()) - sum(self._others.values())
        return {
            "seconds": seconds,
            "cpu_seconds": own + spent,
            "own_cpu_seconds": own,
            "load": os.getloadavg()[0],
        }


def _others() -> dict[int, float]:
    """Processor seconds of the descendants of this process that live, by process id."""
    spent: dict[int, float] = {}
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    return spent
