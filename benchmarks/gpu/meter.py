"""Seconds, peak memory and useful FLOP."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy


def seconds(work: Callable[[], object], repeats: int, device: torch.device) -> list[float]:
    """Seconds of each repeat; one warm-up before them is not counted."""
    times: list[float] = []
    for _ in range(repeats + 1):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return times[1:]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def peak(work: Callable[[], object], device: torch.device) -> float | None:
    """Peak of allocated GiB during the work, including weights and optimiser; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated() / 2**30


def ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """TFLOP/s of a plain matmul."""
    size = 8192 if device.type == "cuda" else 512
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = seconds(lambda: a @ b, 10, device)
    return 2 * size**3 / min(times) / 1e12


def linear_weights(module: nn.Module) -> int:
    return sum(m.weight.numel() for m in module.modules() if isinstance(m, nn.Linear))


def useful_tflop(policy: Policy, item: PackItem) -> float:
    """TFLOP of forward and backward, each token, image and row of the head counted once."""
    text, tower = policy.backbone.decoder.config, policy.model.base_model.visual
    prompt, completions = len(item.prompt.ids), sum(map(len, item.rows))
    pairs = prompt**2 / 2 + sum(len(row) * (prompt + len(row) / 2) for row in item.rows)
    width, depth = tower.config.embed_dim, tower.config.depth
    patches = sum(len(image.values) for image in item.prompt.images)
    places = sum(image.tokens for image in item.prompt.images)
    forward = (
        2 * linear_weights(policy.backbone.decoder) * (prompt + completions)
        + 4 * text.hidden_size * text.num_hidden_layers * pairs
        + 2 * policy.backbone.head.weight.numel() * completions
        + 2 * linear_weights(tower.blocks) * patches
        + 4 * width * depth * patches**2
        + 2 * linear_weights(tower.merger) * places
    )
    return float(3 * forward / 1e12)
