"""Whole models: packed against replicated, the sampler against the trainer, on each family and in each precision."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.correctness.equality import compare_sampling
from benchmarks.correctness.grid import (
    FAMILIES,
    VARIANTS,
    build_policy,
    cases,
    compare,
    randomise_adapters,
)
from benchmarks.gpu.pages import Row
from benchmarks.gpu.suite import Options, checked_row, skipped_row
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.agreement import HALF_MEAN_BOUND
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.decoding_rows import DecodingRows
from vlrft.rollout.engines.hf import HfEngine, eval_mode
from vlrft.rollout.engines.prefill import prefill
from vlrft.schema import IMAGE
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, ask, noise_image

# max |Δ log-prob|, relative error of the gradient.
FLOAT32, TF32, BFLOAT16 = (1e-4, 1e-4), (0.05, 0.02), (0.25, 0.1)
BIASES = (
    0,
    100,
    400,
)  # mean |score| that the biases of queries and keys add, as in released Qwen2 models
TOKENS = 48


def grid(options: Options, bounds: tuple[float, float], dtype: str, variants: tuple[str, ...], **settings: Any) -> Iterator[Row]:  # fmt: skip
    """The equality grid of benchmarks.correctness: for each family and variant the cases that are furthest off."""
    sizes = {"hidden": 128, "layers": 2} if options.tiny else {"hidden": 256, "layers": 4}
    args = argparse.Namespace(dtype=dtype, device=options.device, **sizes)
    for family in FAMILIES[:1] if options.tiny else FAMILIES:
        for variant in variants:
            chosen = {**VARIANTS[variant], **settings}
            if family in ("qwen2", "llama") and "freeze" in chosen:
                continue
            try:
                with TemporaryDirectory() as folder:
                    policy = build_policy(family, args, Path(folder), **chosen)
            except ConfigError as e:
                if settings.get("attention") != "flex_attention":
                    raise
                yield skipped_row(f"{family}, {variant}", str(e))
                continue
            randomise_adapters(policy)
            with policy.float32_products():
                gaps = {name: compare(policy, case) for name, case in cases(policy)}
            for k, what in enumerate(("log-probs", "gradients")):
                worst = max(gaps, key=lambda name: gaps[name][k])
                yield checked_row(
                    f"{family}, {variant}, {what}: {worst}", gaps[worst][k], bounds[k]
                )


ALL = tuple(VARIANTS)


def check_float32(options: Options) -> Iterator[Row]:
    """Packed against replicated without TF32, over the whole grid."""
    yield from grid(options, FLOAT32, "float32", ALL, tf32=False)


def check_tf32(options: Options) -> Iterator[Row]:
    """The same with products of 10 bits."""
    yield from grid(options, TF32, "float32", ("plain", "LoRA"), tf32=True)


def check_bfloat16(options: Options) -> Iterator[Row]:
    """The same in bfloat16, in which a GPU trains."""
    yield from grid(options, BFLOAT16, "bfloat16", ALL)


def check_flex(options: Options) -> Iterator[Row]:
    """Packed rows through flex_attention, compiled, forward and backward."""
    if options.device == "cpu":
        yield skipped_row("flex_attention", "has no backward pass on a CPU")
        return
    for dtype, bounds in (("float32", FLOAT32), ("bfloat16", BFLOAT16)):
        yield from grid(options, bounds, dtype, ("plain", "checkpointing"), attention="flex_attention")  # fmt: skip


def check_sampling(options: Options) -> Iterator[Row]:
    """Greedy answers against generate(), and sampled log-probs against the plain forward, in float32."""
    args = argparse.Namespace(dtype="float32", device=options.device, hidden=128 if options.tiny else 256, layers=2)  # fmt: skip
    for family in FAMILIES[:1] if options.tiny else FAMILIES:
        with TemporaryDirectory() as folder:
            policy = build_policy(family, args, Path(folder), tf32=False)
        with policy.float32_products():
            same, total, gap = compare_sampling(policy)
        yield checked_row(
            f"{family}: greedy answers that differ from generate()'s", total - same, 0
        )
        yield checked_row(f"{family}: sampled log-probs", gap, FLOAT32[0])


def check_large_scores(options: Options) -> Iterator[Row]:
    """Log-probs of sampling and of training in bfloat16 where q·k is as large as in released models."""
    width = 64 if options.tiny else 128
    build = BuildConfig(
        hidden_size=4 * width, layers=2 if options.tiny else 8, heads=4, kv_heads=2,
        intermediate_size=8 * width, init_scale=2.0,
    )  # fmt: skip
    config = PolicyConfig(build=build, dtype="bfloat16")
    for bias in BIASES:
        policy = load_policy(config, corpus=CORPUS, device=options.device)
        raise_scores(policy, bias, width)
        gap = sampler_gap(policy, 16 if options.tiny else TOKENS)
        yield checked_row(f"mean |q·k| + {bias}: sampler gap, mean", gap, HALF_MEAN_BOUND)


def check_graph(options: Options) -> Iterator[Row]:
    """Logits of a decoding step that a CUDA graph replays, against the same step as it is, before and after a row leaves. On
    a CPU nothing is recorded, and the two are one."""
    build = BuildConfig(hidden_size=256, layers=2, heads=4, kv_heads=2, intermediate_size=512)
    gpu = options.device == "cuda"
    config = PolicyConfig(build=build, dtype="bfloat16" if gpu else "float32")
    policy = load_policy(config, corpus=CORPUS, device=options.device)
    texts = ("one two three", "one")
    requests = [Request(id=t, prompt=policy.chat.render(ask(t)), seeds=(0,)) for t in texts]
    random = torch.Generator().manual_seed(0)
    warnings.simplefilter("always")
    with torch.no_grad(), eval_mode(policy.model), warnings.catch_warnings(record=True) as warned:
        plain, graphed = (
            DecodingRows(
                policy.backbone, prefill(policy.backbone, requests, pad_id=policy.chat.pad_id), (2, 1), room=12, graphed=on,
            )
            for on in (False, True)
        )  # fmt: skip
        for kept in ((0, 1, 2), (0, 2)):
            if len(kept) < len(plain):
                plain.keep(kept)
                graphed.keep(kept)
            for k in range(5):
                tokens = torch.randint(0, 200, (len(kept),), generator=random).to(policy.device)
                expected = plain.step(tokens)
                gap = float((graphed.step(tokens) - expected).norm() / expected.norm())
                yield checked_row(f"{len(kept)} rows, token {k + 1}: logits", gap, BFLOAT16[1] if gpu else 1e-4)  # fmt: skip
    refused = sum("CUDA graph" in str(w.message) for w in warned)
    if gpu:
        yield checked_row("steps that could not be recorded", refused, 0)


def raise_scores(policy: Policy, size: float, width: int) -> None:
    """Biases of queries and keys in two slowly rotating channels, which add `size` to each score."""
    for layer in policy.backbone.decoder.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            bias = torch.zeros(projection.out_features // width, width)
            bias[:, width // 2 - 4] = bias[:, width // 2 - 1] = (size * width**0.5 / 2) ** 0.5
            with torch.no_grad():
                projection.bias.copy_(bias.flatten())


def sampler_gap(policy: Policy, tokens: int) -> float:
    """Mean |Δ log-prob| between sampling and the packed forward of training, over eight answers to an image."""
    policy.chat.end_ids = frozenset()
    question = " ".join(["one two three"] * 30)
    prompt = policy.chat.render(ask(IMAGE, question), [noise_image(112, 112)])
    request = Request(id="gap", prompt=prompt, seeds=tuple(range(8)))
    (pieces,) = HfEngine(policy).generate([request], Sampling(max_tokens=tokens))
    item = PackItem(prompt=prompt, rows=tuple(piece.ids for piece in pieces))
    mask = torch.ones(len(pieces), tokens, dtype=torch.bool)
    with torch.no_grad():
        trained = packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs
    sampled = torch.tensor([piece.logprobs for piece in pieces], dtype=torch.float64)
    return float((sampled - trained.double().cpu()).abs().mean())
