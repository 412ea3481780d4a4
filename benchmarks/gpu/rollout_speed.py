"""Rollouts: tokens a second, kernels and syncs a token, beside `generate()`, with and without a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from unittest.mock import patch

import torch

from benchmarks.gpu.meter import count_launches, seconds
from benchmarks.gpu.pages import Row
from benchmarks.gpu.policies import GROUP, TINY, WORKS, make_group, make_policy
from benchmarks.gpu.suite import Options, measured_row, skipped_row
from vlrft.policy.logprobs import model_inputs
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, RolloutEngine, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Prompt

# Tokens of two rollouts; a token costs their difference by the difference of their lengths.
SHORT, LONG = 8, 40
COUNTED = 16  # tokens of the longer of two profiled rollouts
REPEATS = 3
Rollout = Callable[[int], Callable[[], object]]


def decode(options: Options) -> Iterator[Row]:
    """All weights."""
    yield from compare(options, make_policy(options))


def decode_lora(options: Options) -> Iterator[Row]:
    """With LoRA adapters on all linear layers."""
    yield from compare(options, make_policy(options, lora=True))


def compare(options: Options, policy: Policy) -> Iterator[Row]:
    for prompts in draw_prompts(options, policy):
        rows = len(prompts) * GROUP
        for name, rollout in sides(policy, prompts):
            yield from a_token(f"{rows} rows, {name}", rollout, rows, policy.device)
        gc.collect()


def draw_prompts(options: Options, policy: Policy) -> Iterator[Sequence[Prompt]]:
    """Batches of 1, 16 and 64 prompts; tiny ones of 1 and 2."""
    work = TINY[0] if options.tiny else WORKS[0]
    for count in (1, 2) if options.tiny else (1, 16, 64):
        yield [make_group(policy, work, k).prompt for k in range(count)]


def sample_with(engine: RolloutEngine, prompts: Sequence[Prompt]) -> Rollout:
    """Rollouts of a number of tokens, a group for each prompt."""
    requests = [
        Request(id=str(k), prompt=prompt, seeds=tuple(range(GROUP)))
        for k, prompt in enumerate(prompts)
    ]
    return lambda length: lambda: engine.generate(requests, Sampling(max_tokens=length))


def sides(policy: Policy, prompts: Sequence[Prompt]) -> Iterator[tuple[str, Rollout]]:
    """vlrft, with a CUDA graph on and off where the engine has the choice, and generate()."""
    sample = sample_with(HfEngine(policy), prompts)
    if policy.device.type == "cuda":
        yield "vlrft, CUDA graph on", sample
        # in effect until the next side is asked for
        with patch("vlrft.rollout.engines.decoding.can_graph", lambda keys: False):
            yield "vlrft, CUDA graph off", sample
    else:
        yield "vlrft", sample
    ids = torch.tensor([prompt.ids for prompt in prompts])
    images = [image for prompt in prompts for image in prompt.images]
    inputs = model_inputs(policy, ids, torch.ones_like(ids), images)

    def generate(length: int) -> None:
        policy.model.eval()
        with torch.no_grad():
            policy.model.generate(
                **inputs, min_new_tokens=length, max_new_tokens=length, do_sample=True, top_k=0, top_p=1.0,
                temperature=1.0, num_return_sequences=GROUP,
            )  # fmt: skip
        policy.model.train()

    yield "generate()", lambda length: lambda: generate(length)


def a_token(name: str, rollout: Rollout, rows: int, device: torch.device) -> Iterator[Row]:
    """Times, kernels and syncs of a token."""
    try:
        yield from time_a_token(name, rollout, rows, device)
    except torch.OutOfMemoryError:
        yield skipped_row(name, "out of memory")
        return
    long, short = (count_launches(rollout(length), device) for length in (COUNTED, SHORT))
    kernels, launches, syncs = long.per(short, COUNTED - SHORT)
    yield measured_row(f"{name}: kernels a token", kernels, "")
    yield measured_row(f"{name}: launches a token", launches, "")
    yield measured_row(f"{name}: syncs a token", syncs, "")


def time_a_token(name: str, rollout: Rollout, rows: int, device: torch.device) -> Iterator[Row]:
    """From two rollouts of different lengths."""
    times = [median(seconds(rollout(length), REPEATS, device)) for length in (SHORT, LONG)]
    step = (times[1] - times[0]) / (LONG - SHORT)
    yield measured_row(f"{name}: a token", 1e3 * step, "ms")
    yield measured_row(f"{name}: tokens a second", rows / step, "")
    yield measured_row(f"{name}: prefill and first tokens", times[0] - SHORT * step, "s")
