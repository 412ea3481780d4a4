"""vLLM beside the engine `hf`, with the same policy: tokens a second, the time of an update, the gap to the trainer, sleep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.meter import seconds
from benchmarks.gpu.pages import Row
from benchmarks.gpu.policies import GROUP, make_policy
from benchmarks.gpu.rollout_speed import draw_prompts, sample_with, time_a_token
from benchmarks.gpu.suite import (
    ROOT,
    Options,
    Suite,
    checked_row,
    measured_row,
    run_suite,
    skipped_row,
)
from benchmarks.vllm_check.gaps import gaps
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import RolloutEngine
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm

PYTHON = Path(os.environ.get("VLLM_PYTHON", ROOT / ".venv-vllm/bin/python"))
CONTEXT = 2048
MAX_GAP = 1e-4  # nats, in float32; in half precision the gap is only measured
START_SECONDS = 200.0
CHANGE = 1.001  # what an update multiplies the weights by
REPEATS = 3


def one_device(options: Options) -> Iterator[Row]:
    """Both engines on the policy's device; on a GPU vLLM has 0.4 of its memory, and sleeps in an update."""
    policy = make_policy(options)
    yield from time_engine(options, policy, "hf", HfEngine(policy))
    if not PYTHON.is_file():
        yield skipped_row("vLLM", missing())
        return
    shared = policy.device.type == "cuda"
    arguments = ("--gpu-memory-utilization=0.4",) if shared else ()
    with closing(start(policy, sleep=shared, arguments=arguments)) as engine:
        yield from time_engine(options, policy, "vLLM", engine)
        yield from change_weights(policy, engine, "by file")
        if shared:
            yield from put_to_sleep(policy, engine)


def two_devices(options: Options) -> Iterator[Row]:
    """Weights by broadcast: with NCCL to a server on a second GPU, on a CPU with gloo."""
    if options.device == "cuda" and torch.cuda.device_count() < 2:
        yield skipped_row("vLLM, broadcast", "the server needs a second GPU")
        return
    if not PYTHON.is_file():
        yield skipped_row("vLLM, broadcast", missing())
        return
    policy = make_policy(options)
    devices = ("1",) if policy.device.type == "cuda" else ()
    with closing(start(policy, transfer="broadcast", devices=devices)) as engine:
        yield from change_weights(policy, engine, "by broadcast")


def missing() -> str:
    return f"{PYTHON} is not there: see docs/howto/vllm.md, or set VLLM_PYTHON"


def start(policy: Policy, **settings: Any) -> VllmEngine:
    """A server that has the policy's weights."""
    kind = Vllm(python=str(PYTHON), context=CONTEXT, start_seconds=START_SECONDS, **settings)
    place = EnginePlace(say=lambda line: print(line, file=sys.stderr, flush=True))
    engine = VllmEngine(kind, policy, place)
    engine.load_weights(policy.weights(), 0)
    return engine


def time_engine(
    options: Options, policy: Policy, name: str, engine: RolloutEngine
) -> Iterator[Row]:
    for prompts in draw_prompts(options, policy):
        rows = len(prompts) * GROUP
        rollout = sample_with(engine, prompts)
        yield from time_a_token(f"{rows} rows, {name}", rollout, rows, policy.device)


def change_weights(policy: Policy, engine: VllmEngine, way: str) -> Iterator[Row]:
    """Seconds of an update with changed weights, and the gap to the trainer's log-probs after it."""
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(CHANGE)
    steps = iter(range(1, REPEATS + 2))
    times = seconds(
        lambda: engine.load_weights(policy.weights(), next(steps)), REPEATS, policy.device
    )
    yield measured_row(f"vLLM, an update {way}", min(times), "s")
    gap = max(gaps(policy, engine))
    what = f"vLLM, largest gap after an update {way}"
    if policy.dtype == torch.float32:
        yield checked_row(what, gap, MAX_GAP)
    else:
        yield measured_row(what, gap, "nats")


def put_to_sleep(policy: Policy, engine: VllmEngine) -> Iterator[Row]:
    """Memory that a sleeping server frees, and the gap after an update has woken it."""
    before, _ = torch.cuda.mem_get_info()
    engine.finish()
    after, _ = torch.cuda.mem_get_info()
    yield measured_row("vLLM, memory freed by sleep", (after - before) / 2**30, "GiB")
    engine.load_weights(policy.weights(), REPEATS + 2)
    yield measured_row("vLLM, largest gap after sleep", max(gaps(policy, engine)), "nats")


SUITE = Suite(
    name="engines",
    title="How fast are rollouts with vLLM on a GPU?",
    about=(
        "Qwen2-VL-2B's shape in bfloat16 with random weights: the engines `hf` and `vllm` on the same prompts, groups of 8.",
        "Prompts come again, so that vLLM has their keys and values already; a token's time is from two lengths and without the prompt.",
    ),
    cases={"one device": one_device, "two devices": two_devices},
)


def main() -> int:
    return run_suite(SUITE)


if __name__ == "__main__":
    sys.exit(main())
