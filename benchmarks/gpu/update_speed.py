"""Updates at filled micro-batches: milliseconds, MFU and memory; the head and the vision tower by themselves.

MFU is the rate of useful FLOPs relative to that of a plain matmul of the same dtype on the same machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from benchmarks.gpu.meter import (
    bandwidth,
    ceiling,
    count_launches,
    kernel_seconds,
    peak_gib,
    seconds,
    useful_tflop,
)
from benchmarks.gpu.pages import Row
from benchmarks.gpu.policies import TINY, WORKS, Work, fill, make_group, make_policy
from benchmarks.gpu.suite import Options, measured_row, skipped_row
from vlrft.config import UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.policy.linear_logprobs import linear_logprobs
from vlrft.policy.load import checkpoint_activations
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.trainable import without_adapters

REPEATS = 3
TOKENS = UpdateConfig.max_tokens_per_micro_batch


def find_ceilings(options: Options) -> Iterator[Row]:
    """The most that the machine can do."""
    device = torch.device(options.device)
    for dtype in (torch.bfloat16, torch.float32):
        yield measured_row(f"matmul, {str(dtype)[6:]}", ceiling(device, dtype), "TFLOP/s")
    yield measured_row("copy", bandwidth(device), "GB/s")


def update_all(options: Options) -> Iterator[Row]:
    """All weights."""
    yield from updates(options, make_policy(options))


def update_lora(options: Options) -> Iterator[Row]:
    """With LoRA adapters on all linear layers."""
    yield from updates(options, make_policy(options, lora=True))


def updates(options: Options, policy: Policy) -> Iterator[Row]:
    top = ceiling(policy.device, policy.dtype)
    engine = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)
    for checkpointing in (True, False):
        if checkpointing:
            checkpoint_activations(without_adapters(policy.model))
        else:
            policy.model.gradient_checkpointing_disable()
        for work in TINY if options.tiny else WORKS:
            items = fill(policy, work, 512 if options.tiny else TOKENS)
            name = f"{work.name}, {len(items)} groups{', checkpointing' * checkpointing}"
            yield from one_update(name, engine, items, top)


def one_update(name: str, engine: SingleEngine, items: list[PackItem], top: float) -> Iterator[Row]:
    """Forward, backward and step of one micro-batch."""
    policy, device = engine.policy, engine.policy.device
    rows = [row for item in items for row in item.rows]
    mask = torch.ones(len(rows), len(rows[0]), dtype=torch.bool)
    weights = (torch.arange(len(rows), device=device) % 2 * 2.0 - 1)[:, None] / mask.numel()

    def work() -> None:
        scores = packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
        engine.backward(-(scores * weights).sum(), last=True)
        engine.step()

    try:
        middle = median(seconds(work, REPEATS, device))
        peak = peak_gib(work, device)
    except torch.OutOfMemoryError:
        engine.discard()
        yield skipped_row(name, "out of memory")
        return
    yield measured_row(f"{name}: update", 1e3 * middle, "ms")
    yield measured_row(f"{name}: MFU", 100 * useful_tflop(policy, items) / middle / top, "%")
    yield measured_row(f"{name}: peak memory", peak, "GiB")
    launches = count_launches(work, device)
    yield measured_row(f"{name}: kernels", launches.kernels, "")
    yield measured_row(f"{name}: syncs", launches.syncs, "")
    if device.type == "cuda":
        for kind, total in kernel_seconds(work, device).items():
            yield measured_row(f"{name}: {kind}", 1e3 * total, "ms")


def towers(options: Options) -> Iterator[Row]:
    """The vision tower's forward, by itself."""
    policy = make_policy(options)
    backbone, device = policy.backbone, policy.device
    for side, number in ((112, 1),) if options.tiny else ((448, 1), (448, 8), (896, 1), (1344, 1)):
        work = Work(name="", side=side, length=1)
        prompts = [make_group(policy, work, k).prompt for k in range(number)]
        ids = torch.tensor([prompt.ids for prompt in prompts], device=device)
        images = backbone.collect_images(prompts)

        def encode(ids: Any = ids, images: Any = images) -> None:
            with torch.no_grad():
                backbone.embed(ids, images)

        name = f"{number} images of {side}²"
        yield measured_row(f"{name}: forward", 1e3 * median(seconds(encode, REPEATS, device)), "ms")
        launches = count_launches(encode, device)
        yield measured_row(f"{name}: kernels", launches.kernels, "")
        yield measured_row(f"{name}: syncs", launches.syncs, "")


def heads(options: Options) -> Iterator[Row]:
    """Log-probs of a vocabulary of Qwen's size, forward and backward."""
    device = torch.device(options.device)
    dtype = torch.float32 if options.tiny else torch.bfloat16
    vocabulary, width = (1024, 64) if options.tiny else (151_936, 1536)
    with device:
        head = torch.nn.Linear(width, vocabulary, bias=False, dtype=dtype)
        banned = torch.zeros(vocabulary, dtype=torch.bool)
    banned[-20:] = True
    for tokens in (64,) if options.tiny else (1024, 8192):
        states = torch.randn(tokens, width, device=device, dtype=dtype, requires_grad=True)
        targets = torch.randint(0, vocabulary - 20, (tokens,), device=device)
        for temperature in (1.0, 0.9):

            def work(states: Any = states, targets: Any = targets, by: float = temperature) -> None:
                logprobs, _ = linear_logprobs(head, states, targets, banned, by)
                loss: Any = logprobs.sum()
                loss.backward()

            name = f"{tokens} tokens, temperature {temperature:g}"
            yield measured_row(f"{name}: forward and backward", 1e3 * median(seconds(work, REPEATS, device)), "ms")  # fmt: skip
            peak = peak_gib(work, device)
            yield measured_row(f"{name}: peak memory", peak, "GiB")
            yield measured_row(f"{name}: kernels", count_launches(work, device).kernels, "")
