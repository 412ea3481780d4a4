"""Seconds, kernels and syncs, peak memory and useful FLOPs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.testing.operator_meter import count_operators

MATMUL = 8192  # rows and columns of the matrices of the ceiling
KINDS = {  # of kernels, by their names; the first that matches
    "attention": re.compile(r"flash|fmha|flex"),
    "matrix products": re.compile(r"gemm|nvjet|cutlass|xmma|cublas|splitK"),
    "copies": re.compile(r"^Memcpy|^Memset"),
}
OTHER = "other kernels"
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


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


def peak_gib(work: Callable[[], object], device: torch.device) -> float:
    """Peak of allocated memory during the work, weights and optimiser included; NaN on a CPU."""
    if device.type != "cuda":
        work()
        return float("nan")
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated() / 2**30


@dataclass(frozen=True, kw_only=True)
class Launches:
    """`kernels` ran on the device, copies included; `launches` are calls of the host that started them, of which a graph
    needs one; `syncs` are places where the host waited. On a CPU the first two are dispatched operators."""

    kernels: int
    launches: int
    syncs: int

    def per(self, other: Launches, count: int) -> tuple[float, float, float]:
        """The difference to a shorter piece of work, for each of `count`."""
        pairs = (
            (self.kernels, other.kernels),
            (self.launches, other.launches),
            (self.syncs, other.syncs),
        )
        kernels, launches, syncs = ((a - b) / count for a, b in pairs)
        return kernels, launches, syncs


def count_launches(work: Callable[[], object], device: torch.device) -> Launches:
    if device.type != "cuda":
        with count_operators() as counts:
            work()
        operators = counts.operators.total()
        return Launches(kernels=operators, launches=operators, syncs=counts.syncs.total())
    from torch.profiler import ProfilerActivity, profile

    wait(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        work()
        wait(device)
    events = profiled.key_averages()
    on_device = [e for e in events if str(e.device_type).endswith("CUDA")]
    launching = [e for e in events if "LaunchKernel" in e.key or "GraphLaunch" in e.key]
    waiting = [e for e in events if e.key in SYNCS]
    return Launches(
        kernels=sum(e.count for e in on_device),
        launches=sum(e.count for e in launching),
        syncs=sum(e.count for e in waiting) - 1,  # the last one is the meter's
    )


def kernel_seconds(work: Callable[[], object], device: torch.device) -> dict[str, float]:
    """Seconds of the kernels that ran on the GPU, by their kind."""
    from torch.profiler import ProfilerActivity, profile

    wait(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        work()
        wait(device)
    sums: dict[str, float] = {}
    for event in profiled.key_averages():
        if str(event.device_type).endswith("CUDA"):
            kind = next((k for k, pattern in KINDS.items() if pattern.search(event.key)), OTHER)
            sums[kind] = sums.get(kind, 0.0) + event.self_device_time_total / 1e6
    return sums


def ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """TFLOP/s of a plain matmul."""
    size = MATMUL if device.type == "cuda" else 512
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = seconds(lambda: a @ b, 10, device)
    return 2 * size**3 / min(times) / 1e12


def bandwidth(device: torch.device) -> float:
    """GB/s of a copy on the device, bytes read and written."""
    size = 2**30 if device.type == "cuda" else 2**22
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = seconds(lambda: target.copy_(source), 10, device)
    return 2 * size / min(times) / 1e9


def linear_flop(module: nn.Module) -> int:
    """FLOP of a token in the module's matrices, forward and backward: 2 for each weight, as many again for the gradient of
    the input and for that of the weight, where these are computed."""
    trained = any(p.requires_grad for p in module.parameters())
    weights = [m.weight for m in module.modules() if isinstance(m, nn.Linear)]
    return sum(2 * w.numel() * (1 + trained + w.requires_grad) for w in weights)


def useful_tflop(policy: Policy, items: Sequence[PackItem]) -> float:
    """TFLOP of forward and backward: P + ΣC tokens of the backbone, each image once, ΣC rows of the head, attention over the
    pairs that are attended to."""
    return sum(_useful_tflop(policy, item) for item in items)


def _useful_tflop(policy: Policy, item: PackItem) -> float:
    text, head = policy.backbone.decoder.config, policy.backbone.head.weight
    tower: Any = policy.backbone.vision_tower
    prompt, completions = len(item.prompt.ids), sum(map(len, item.rows))
    pairs = prompt**2 / 2 + sum(len(row) * (prompt + len(row) / 2) for row in item.rows)
    patches = [len(image.values) for image in item.prompt.images]
    passes = 3 if any(p.requires_grad for p in tower.parameters()) else 1
    work = (
        linear_flop(policy.backbone.decoder) * (prompt + completions)
        + 3 * 4 * text.hidden_size * text.num_hidden_layers * pairs
        + 2 * (2 + head.requires_grad) * head.numel() * completions
        + linear_flop(tower.blocks) * sum(patches)
        + linear_flop(tower.merger) * sum(image.tokens for image in item.prompt.images)
        + passes * 4 * tower.config.embed_dim * tower.config.depth * sum(n**2 for n in patches)
    )
    return float(work / 1e12)
