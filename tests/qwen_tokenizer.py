"""The real Qwen2 tokenizer, without a hub: its ranks are in the PyPI package `dashscope`. For tests of exact prompts.

`qwen_chat` renders a sample as Qwen2-VL reads it: the released template, the real token ids, the real number of image
tokens. Tests that use it are skipped where dashscope is not installed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from vlrft.chat import Chat
from vlrft.policy.build import make_tokenizer
from vlrft.policy.vision import bound_pixels, build_image_processor
from vlrft.schema import Sample

SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
USER = f"<|im_start|>user\n{PICTURE}"  # who shows one
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
MARKER = "<|image_pad|>"
CHECKPOINT_PIXELS = 12845056  # the bound in the released models' preprocessor_config.json
RELEASED_PIXELS = 401408  # 512 x 28 x 28: what R1-V, Visual-RFT and VisualThinker train with
PACKAGE = find_spec("dashscope")  # read as a folder: importing it takes more packages

needs_qwen = pytest.mark.skipif(PACKAGE is None, reason="dashscope carries the Qwen tokenizer")


@cache
def qwen_tokenizer() -> Any:
    """`Qwen2Tokenizer` with the released ids: `Hello world` is 9707, 1879; `<|image_pad|>` is 151655."""
    ranks = _ranks()
    vocab = {_letters(token): rank for token, rank in ranks.items()}
    merges = [(_letters(left), _letters(right)) for left, right in _merges(ranks)]
    return make_tokenizer(vocab, merges)


@cache
def qwen_chat(max_pixels: int = CHECKPOINT_PIXELS) -> Chat:
    """Qwen2-VL's tokenizer, template and image processor, with the bound of the released models unless given."""
    tokenizer = qwen_tokenizer()
    processor = build_image_processor()
    bound_pixels(processor, None, max_pixels)
    return Chat(
        tokenizer,
        processor,
        image_token_id=tokenizer.convert_tokens_to_ids(MARKER),
        processor_class="Qwen2VLProcessor",
    )


def rendered(sample: Sample, max_pixels: int = CHECKPOINT_PIXELS) -> str:
    """The prompt as the policy reads it, a single marker standing for the tokens of an image."""
    chat = qwen_chat(max_pixels)
    text: str = chat.tokenizer.decode(chat.render(sample.messages, sample.images).ids)
    while MARKER * 2 in text:
        text = text.replace(MARKER * 2, MARKER)
    return text


def image_tokens(sample: Sample, max_pixels: int = CHECKPOINT_PIXELS) -> int:
    """How many tokens of the prompt stand for images."""
    chat = qwen_chat(max_pixels)
    return chat.render(sample.messages, sample.images).ids.count(cast(int, chat.image_token_id))


def _ranks() -> dict[bytes, int]:
    """Byte sequence -> id, as Qwen's tiktoken file has them."""
    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    text = Path(PACKAGE.origin).with_name("resources").joinpath("qwen.tiktoken").read_text("ascii")
    pairs = (line.split() for line in text.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _merges(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """The pair that each token was joined from, in the order of the ranks."""
    for token, rank in ranks.items():
        if len(token) > 1:
            yield _last_pair(token, rank, ranks)


def _last_pair(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """What is left of the token's bytes when only merges of lower ranks were made."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        found = [(ranks.get(a + b, rank), k) for k, (a, b) in enumerate(pairwise(parts))]
        best, place = min(found)
        assert best < rank, f"{token!r} is no merge of lower ones"
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts[0], parts[1]


@cache
def _letter(byte: int) -> str:
    """The letter by which byte-level BPE writes a byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in seen:
        return chr(byte)
    return chr(256 + sum(b not in seen for b in range(byte)))


def _letters(token: bytes) -> str:
    return "".join(map(_letter, token))
