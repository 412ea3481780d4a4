"""The measured cases: a group of each kind, and policies of random weights in a real model's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from vlrft.policy.chat import Chat
from vlrft.policy.families._qwen import build_tokenizer
from vlrft.policy.families.qwen2_vl import QWEN_VISION
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.schema import IMAGE, Message
from vlrft.vision.processor import prepare_torchvision

GROUP = 8
CORPUS = ("Which class is this? Think first, then answer.",) * 8


@dataclass(frozen=True, kw_only=True)
class Case:
    """A group with an image of `side`² pixels and completions of `length` tokens."""

    name: str
    side: int
    length: int


CASES = (
    Case(name="classification", side=448, length=64),
    Case(name="geometry", side=896, length=256),
    Case(name="grounding", side=1344, length=128),
)
TINY = (Case(name="classification", side=112, length=8), Case(name="geometry", side=168, length=16))
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "2b": {
        "text": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
                 "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151_936},
        "vision": {"depth": 32, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4},
    },
    "tiny": {
        "text": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024},
        "vision": {"depth": 2, "embed_dim": 64, "num_heads": 2, "mlp_ratio": 4},
    },
}  # fmt: skip


def make_policy(shape: str, device: str, dtype: torch.dtype) -> Policy:
    """A policy of random weights of the shape, with a tokenizer of a few hundred tokens."""
    prepare_torchvision()
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    tokenizer = build_tokenizer(CORPUS, 400)
    id_of = tokenizer.convert_tokens_to_ids
    text = SHAPES[shape]["text"]
    head = text["hidden_size"] // text["num_attention_heads"]
    rope = {"rope_type": "default", "rope_theta": 1e6}
    sections = [head // 8, 3 * head // 16, head // 2 - head // 8 - 3 * head // 16]
    config = Qwen2VLConfig(
        text_config={**text, "rope_parameters": {**rope, "mrope_section": sections}},
        vision_config={**SHAPES[shape]["vision"], "hidden_size": text["hidden_size"]},
        image_token_id=id_of("<|image_pad|>"),
        vision_start_token_id=id_of("<|vision_start|>"),
        vision_end_token_id=id_of("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    with torch.device(device):
        make: Any = Qwen2VLForConditionalGeneration
        model = make._from_config(config, dtype=dtype, attn_implementation="sdpa")
    processor = QWEN_VISION.build_processor()
    chat = Chat(tokenizer, processor, QWEN_VISION, vocab_size=text["vocab_size"])
    return Policy(model.train(), chat)


def make_group(policy: Policy, case: Case) -> PackItem:
    """A group of random completions to one prompt with a noise image."""
    generator = np.random.default_rng(case.side)
    pixels = generator.integers(0, 255, (case.side, case.side, 3), dtype=np.uint8)
    message = Message(role="user", content=(IMAGE, CORPUS[0]))
    prompt = policy.chat.render([message], [Image.fromarray(pixels)])
    rows = generator.integers(0, 256, (GROUP, case.length))
    return PackItem(prompt=prompt, rows=tuple(tuple(map(int, row)) for row in rows))
