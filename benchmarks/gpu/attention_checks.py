"""Each attention kernel that this device has, against the definition of attention in float64."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.gpu.pages import Row
from benchmarks.gpu.suite import Options, checked_row, skipped_row
from vlrft.policy.attention import cpu_flash, cuda_efficient, cuda_flash
from vlrft.policy.attention.kernel import Kernel
from vlrft.policy.attention.one_token import prepare_keys
from vlrft.policy.attention.plain import Plain

# B, H, W, Q, K, D, causal: small; a prompt; an own part; rows and their prefix.
SIZES = (
    (2, 4, 2, 7, 7, 16, True),
    (1, 12, 2, 333, 333, 128, True),
    (8, 12, 2, 129, 129, 128, True),
    (1, 12, 2, 1024, 700, 128, False),
    (2, 16, 16, 256, 256, 80, False),  # a vision tower
)
CACHE = 4, 28, 4, 8, 512, 128  # B, H, W, Q, K, D of sampled tokens and a padded cache
# Relative, of the norm: output and gradients. bf16 keeps 8 bits, of which a norm averages some.
BOUNDS = {torch.float32: 3e-5, torch.bfloat16: 0.02, torch.float16: 0.004}
LSE_BOUND = 0.02  # absolute; of inputs that are rounded alike


def define(query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool, lengths: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention as it is defined, with all scores at once."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = scale * query @ key.mT
    places = torch.arange(key.shape[2], device=key.device)
    if causal:
        scores = scores.masked_fill(places > places[: query.shape[2], None], -torch.inf)
    if lengths is not None:
        scores = scores.masked_fill((places >= lengths[:, None])[:, None, None], -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def kernels(device: torch.device, dtype: torch.dtype, width: int) -> Iterator[Kernel]:
    """Those that take this device, dtype and width of a head."""
    yield Plain()
    if device.type == "cpu" and dtype in cpu_flash.DTYPES:
        yield cpu_flash.CpuFlash()
    if device.type == "cuda" and cuda_flash.suits(device, dtype, width):
        yield cuda_flash.CudaFlash()
    if device.type == "cuda" and cuda_efficient.suits(dtype, width):
        yield cuda_efficient.CudaEfficient()


def distance(tensor: Tensor, expected: Tensor) -> float:
    return float((tensor.double() - expected).norm() / expected.norm())


def draw(random: torch.Generator, sizes: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> list[Tensor]:  # fmt: skip
    """Query, key and value. Memory is [B K W D], as the kernels want it; the axes are [B W K D]."""
    batch, heads, key_heads, queries, keys, width = sizes
    shapes = [(batch, queries, heads, width), *[(batch, keys, key_heads, width)] * 2]
    return [torch.randn(s, generator=random).to(device, dtype).transpose(1, 2) for s in shapes]


def check_cache(random: torch.Generator, device: torch.device, dtype: torch.dtype) -> Iterator[Row]:
    """Sampled tokens over caches that are filled to unequal lengths, by the part that decoding uses."""
    batch, _, _, queries, keys, width = CACHE
    query, key, value = draw(random, CACHE, device, dtype)
    lengths = torch.arange(keys - batch, keys, device=device) - 3
    scale = width**-0.5
    output, lse = define(query.double(), key.double(), value.double(), scale, False, lengths)
    part = prepare_keys(query, lengths, keys=keys, queries=queries)
    ours, our_lse = part(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), scale)
    name = f"{type(part).__name__.strip('_')}, {str(dtype)[6:]}, {'x'.join(map(str, CACHE))}"
    yield checked_row(f"{name}: output", distance(ours.flatten(2, 3).transpose(1, 2), output), BOUNDS[dtype])  # fmt: skip
    gap = float((our_lse.flatten(2, 3).transpose(1, 2).double() - lse).abs().max())
    yield checked_row(f"{name}: log-sum-exp", gap, LSE_BOUND)


def check_kernels(options: Options) -> Iterator[Row]:
    """Output, log-sum-exp and gradients of every kernel: of each the size that is furthest off."""
    device = torch.device(options.device)
    random = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        worst: dict[str, Row] = {}
        for sizes in SIZES[:1] if options.tiny else SIZES:
            for row in check_size(random, device, dtype, sizes):
                name, _ = row["what"].split(": ")
                worst[name] = max(worst.get(name, row), row, key=lambda r: r["value"])
        yield from worst.values()
        yield from check_cache(random, device, dtype)
    if device.type == "cpu":
        yield skipped_row("CudaFlash, CudaEfficient", "need a GPU")


def check_size(
    random: torch.Generator,
    device: torch.device,
    dtype: torch.dtype,
    sizes: tuple[int, int, int, int, int, int, bool],
) -> Iterator[Row]:
    """Every kernel on tensors of one size."""
    width, causal = sizes[5:]
    parts = draw(random, sizes[:6], device, dtype)
    query, key, value = parts
    grad = torch.randn(query.shape, generator=random).to(device, dtype)
    scale = width**-0.5
    exact = [part.double().requires_grad_() for part in parts]
    output, lse = define(exact[0], exact[1], exact[2], scale, causal, None)
    output.backward(grad.double())  # type: ignore[no-untyped-call]
    shape = f"{'x'.join(map(str, sizes[:6]))}{', causal' * causal}"
    for kernel in kernels(device, dtype, width):
        name = f"{type(kernel).__name__}, {str(dtype)[6:]}"
        ours, our_lse = kernel.forward(query, key, value, causal=causal, scale=scale)
        gradients = kernel.backward(grad, query, key, value, ours, our_lse, causal=causal, scale=scale)  # fmt: skip
        yield checked_row(f"{name}, output: {shape}", distance(ours, output), BOUNDS[dtype])
        gap = float((our_lse.double() - lse).abs().max())
        yield checked_row(f"{name}, log-sum-exp: {shape}", gap, LSE_BOUND)
        for part, gradient, wanted in zip("qkv", gradients, exact, strict=True):
            assert wanted.grad is not None
            yield checked_row(f"{name}, gradient of {part}: {shape}", distance(gradient, wanted.grad), 2 * BOUNDS[dtype])  # fmt: skip
