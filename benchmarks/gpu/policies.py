"""The measured shapes: policies of random weights in a real model's shape, and groups that fill a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.gpu.suite import Options
from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.tiny import build_model
from vlrft.schema import IMAGE
from vlrft.testing.small_policies import ask, noise_image

GROUP = 8
QUESTION = "Which class is this? Think first, then answer."
QWEN_VOCABULARY = 151_936
TEXT_IDS = 256  # ids below it are text


@dataclass(frozen=True, kw_only=True)
class Work:
    """Groups with an image of `side`² pixels and answers of `length` tokens."""

    name: str
    side: int
    length: int


WORKS = (
    Work(name="classification", side=448, length=64),
    Work(name="geometry", side=896, length=256),
    Work(name="reasoning", side=448, length=1024),
)
TINY = (Work(name="classification", side=112, length=8),)
QWEN2_VL_2B = BuildConfig(
    hidden_size=1536, layers=28, heads=12, kv_heads=2, intermediate_size=8960,
    vision_width=1280, vision_layers=32, vision_heads=16, init_scale=1.0,
)  # fmt: skip
SMALL = BuildConfig(hidden_size=128, layers=2, vision_width=64, vision_layers=2, vision_heads=2, init_scale=1.0)  # fmt: skip


def make_policy(options: Options, *, lora: bool = False) -> Policy:
    """Qwen2-VL-2B's shape in bfloat16, or a tiny one in float32; its weights are drawn on the device."""
    config = PolicyConfig(
        build=SMALL if options.tiny else QWEN2_VL_2B,
        dtype="float32" if options.tiny else "bfloat16",
        lora=LoraConfig() if lora else None,
    )

    def build_there(*args: Any) -> Any:
        with torch.device(options.device):
            return build_model(*args)

    load = partial(load_policy, config, corpus=[QUESTION] * 8, seed=0, device=options.device)
    with patch("vlrft.policy.load.build_model", build_there):
        policy = load()
    if not options.tiny:
        policy.model.resize_token_embeddings(QWEN_VOCABULARY, mean_resizing=False)
    policy.chat.end_ids = frozenset()  # every answer is as long as it may be
    return policy


def make_group(policy: Policy, work: Work, number: int = 0) -> PackItem:
    """A group of random answers to one prompt with a noise image."""
    image = noise_image(work.side, work.side, number)
    prompt = policy.chat.render(ask(IMAGE, QUESTION), [image])
    rows = np.random.default_rng(number).integers(0, TEXT_IDS, (GROUP, work.length))
    return PackItem(prompt=prompt, rows=tuple(tuple(map(int, row)) for row in rows))


def fill(policy: Policy, work: Work, tokens: int) -> list[PackItem]:
    """As many groups as fit into a micro-batch of `tokens`, one at least."""
    first = make_group(policy, work)
    size = len(first.prompt.ids) + sum(map(len, first.rows))
    return [first, *(make_group(policy, work, k) for k in range(1, max(1, tokens // size)))]
