"""The grid of the equality programs: policies and how they are trained, cases of packed items, and their comparison."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.memory import limits
from vlrft.policy.attention import choice
from vlrft.policy.families import all_families, vision_families
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import TokenLogprobs, packed_logprobs, replicated_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.schema import IMAGE, VIDEO, Prompt
from vlrft.testing.packed_items import several_turns
from vlrft.testing.small_policies import CORPUS, ask, noise_image, noise_video

LLAMA = "llama"  # a text-only model that no family builds
FAMILIES = (*all_families(), LLAMA)
FROZEN = ("vision", "projector")
VARIANTS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "checkpointing": {"activation_checkpointing": True},
    "LoRA": {"lora": LoraConfig(rank=8)},
    "LoRA, checkpointing": {"lora": LoraConfig(rank=8), "activation_checkpointing": True},
    "frozen vision": {"freeze": FROZEN},
    "frozen vision, checkpointing": {"freeze": FROZEN, "activation_checkpointing": True},
    "eager attention": {"attention": "eager"},
}
LENGTHS = (23, 1, 40, 7, 31, 16, 2, 28)  # ragged, G = 8
CASES = (
    "text",
    "sub-groups",
    "64 rows",
    "one image",
    "two images",
    "videos",
    "turns",
    "all together",
)
Case = tuple[list[PackItem], Tensor]


def build_policy(family: str, args: argparse.Namespace, folder: Path, **settings: Any) -> Policy:
    # Some processors enlarge short videos to thousands of tokens unless bounds are given.
    bounds = {"min_pixels": 3136, "max_pixels": 50_176} if family in vision_families() else {}
    common: dict[str, Any] = {"dtype": args.dtype, **bounds, **settings}
    build = BuildConfig(
        family="qwen2" if family == LLAMA else family,
        hidden_size=args.hidden,
        layers=args.layers,
        heads=8,
        kv_heads=2,
        intermediate_size=2 * args.hidden,
        vision_width=args.hidden // 2,
        vision_layers=args.layers,
        vocab_size=2000,
    )
    if family != LLAMA:
        return load_policy(PolicyConfig(build=build, **common), corpus=CORPUS, device=args.device)
    save_llama(load_policy(PolicyConfig(build=build), corpus=CORPUS), folder)
    return load_policy(PolicyConfig(model=str(folder), **common), device=args.device)


def widen_norms(policy: Policy) -> None:
    """RMS norms compute in float32 in transformers' models; here in the policy's dtype, so that float64 is tight."""

    def forward(norm: Any, states: Tensor) -> Tensor:
        scale = states.pow(2).mean(-1, keepdim=True).add(norm.variance_epsilon).rsqrt()
        scaled: Tensor = norm.weight * (states * scale)
        return scaled

    for module in policy.model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = partial(forward, module)


def save_llama(twin: Policy, folder: Path) -> None:
    """Save a Llama with random weights that has the twin's sizes and tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    names = (*sizes, "num_attention_heads", "num_key_value_heads", "eos_token_id", "pad_token_id")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{n: getattr(twin.model.config, n) for n in names}))
    model.save_pretrained(folder)
    twin.chat.save(folder)


def cases(policy: Policy) -> Iterator[tuple[str, Case]]:
    chat, random = policy.chat, np.random.default_rng(0)
    text_ids = [i for i in range(len(chat.tokenizer)) if i not in chat.banned_ids]

    def group(prompt: Prompt, lengths: Sequence[int] = LENGTHS) -> PackItem:
        rows = tuple(tuple(random.choice(text_ids, n).tolist()) for n in lengths)
        return PackItem(prompt=prompt, rows=rows)

    text = group(chat.render(ask("How many threes are there, and how many fours?")))
    yield "text", make_case([text])
    halves = [PackItem(prompt=text.prompt, rows=rows) for rows in (text.rows[:3], text.rows[3:])]
    yield "sub-groups", make_case(halves)
    yield "64 rows", make_case([group(text.prompt, random.integers(1, 40, 64).tolist())])
    if policy.backbone.multimodal:
        wide, square = noise_image(252, 140, 1), noise_image(168, 168, 2)
        one = group(chat.render(ask(IMAGE, "Which digit is this?"), [square]))
        two = group(chat.render(ask(IMAGE, "and", IMAGE, "?"), [wide, square]), LENGTHS[:4])
        yield "one image", make_case([one])
        yield "two images", make_case([two])
        clips = [noise_video(5, 140, 100, 3), noise_video(8, 100, 140, 4)]
        content = (VIDEO, "beside", IMAGE, "and", VIDEO, "?")
        moving = group(chat.render(ask(*content), [square], clips), LENGTHS[:4])
        yield "videos", make_case([moving])
        growing, mask = several_turns(policy, square)
        yield "turns", ([growing], mask)
        yield "all together", make_case([one, text, two, moving])


def make_case(items: list[PackItem]) -> Case:
    """The items with a mask of every token but three in the middle, which represent an environment's tokens."""
    rows = [row for item in items for row in item.rows]
    mask = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.bool)
    for b, row in enumerate(rows):
        mask[b, : len(row)] = True
    mask[:, 9:12] = False
    return items, mask


def gradients(
    score: Callable[..., TokenLogprobs], policy: Policy, case: Case
) -> tuple[Tensor, Tensor]:
    """Log-probs, and the gradient of their randomly weighted sum over all parameters."""
    items, mask = case
    policy.model.zero_grad()
    logprobs = score(policy, items, mask=mask, temperature=0.9).logprobs
    weights = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)).to(logprobs)
    (logprobs * weights).sum().backward()  # type: ignore[no-untyped-call]
    parts = [p.grad.flatten().double() for p in policy.model.parameters() if p.grad is not None]
    return logprobs.detach(), torch.cat(parts)


def compare(policy: Policy, case: Case) -> tuple[float, float]:
    """max |Δ log-prob| and the relative error of the gradient."""
    packed, gradient = gradients(packed_logprobs, policy, case)
    plain, expected = gradients(replicated_logprobs, policy, case)
    error = float((gradient - expected).norm() / expected.norm())
    return float((packed - plain).abs().max()), error


def randomise_adapters(policy: Policy) -> None:
    """Give LoRA's B matrices random values; initially they are 0, and the adapters without effect."""
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                # of the CPU: the same values on every device
                random = torch.Generator().manual_seed(0)
                values = torch.empty(parameter.shape, dtype=parameter.dtype)
                parameter.copy_(values.normal_(0, 0.05, generator=random))


@contextmanager
def _small_chunks(policy: Policy) -> Iterator[None]:
    with patch.object(limits, "CHUNK_LOGITS", 16 * len(policy.banned)):
        yield


@contextmanager
def _without_operators(policy: Policy) -> Iterator[None]:
    choice._choose.cache_clear()
    with patch.object(choice, "has_operator", lambda name: False):
        yield
    choice._choose.cache_clear()


@contextmanager
def _reentrant_checkpointing(policy: Policy) -> Iterator[None]:
    policy.model.gradient_checkpointing_enable({"use_reentrant": True})
    yield


# Variants whose settings are those of "plain", under another condition.
CONDITIONS: Mapping[str, Callable[[Policy], AbstractContextManager[None]]] = {
    "checkpointing, reentrant": _reentrant_checkpointing,
    "logits in chunks": _small_chunks,
    "attention in plain products": _without_operators,
}
