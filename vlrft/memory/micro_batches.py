"""How the rows of an update are split into micro-batches, by text and images alike.

The trainer calls `split_rows` for the real rows, the memory plan for those it plans. A micro-batch has a budget of tokens;
an image counts as the tokens that keep as much memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vlrft.memory import saved_tensors
from vlrft.memory.shapes import MicroBatchShape, ModelShape, PackedPrompt, PromptSize


@dataclass(frozen=True, kw_only=True)
class Load:
    """The cost of a prompt, or of a completion after it, in a micro-batch. `images`: by a key that names the image, the tokens
    that keep as much memory (`image_tokens`)."""

    tokens: int
    images: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class _PackedRow:
    """Completions that share a packed row of the forward pass."""

    index: int  # of their prompt
    rows: range  # of its rows
    tokens: int  # prompt included
    images: Mapping[str, int]


def split_rows(
    prompts: Sequence[Load], rows: Sequence[Sequence[Load]], max_tokens: int
) -> list[list[tuple[int, range]]]:
    """Micro-batches of (index of a prompt, range of its rows). `rows`: the rows of each prompt.

    A prompt and its rows are packed into one row of the forward pass; those of a micro-batch are padded to the longest,
    and together with their images, each distinct one counted once, stay within `max_tokens` where a single row allows it.
    A prompt with more rows than fit is split into several packed rows, each of which carries the prompt. Short packed rows
    come first.
    """
    packed = [
        row for k, prompt in enumerate(prompts) for row in _pack(k, prompt, rows[k], max_tokens)
    ]
    micro_batches: list[list[tuple[int, range]]] = []
    micro: list[tuple[int, range]] = []
    images: dict[str, int] = {}
    for row in sorted(packed, key=lambda row: row.tokens):
        images.update(row.images)
        # sorted: this row is the longest
        if micro and (len(micro) + 1) * row.tokens + sum(images.values()) > max_tokens:
            micro_batches.append(micro)
            micro, images = [], dict(row.images)
        micro.append((row.index, row.rows))
    return [*micro_batches, micro] if micro else micro_batches


def _pack(index: int, prompt: Load, rows: Sequence[Load], max_tokens: int) -> Iterator[_PackedRow]:
    """A prompt's packed rows: as many of its rows in each as fit."""
    first, tokens, images = 0, prompt.tokens, dict(prompt.images)
    for k, row in enumerate(rows):
        more = {**images, **row.images}
        if k > first and tokens + row.tokens + sum(more.values()) > max_tokens:
            yield _PackedRow(index, range(first, k), tokens, images)
            first, tokens, more = k, prompt.tokens, {**prompt.images, **row.images}
        tokens, images = tokens + row.tokens, more
    yield _PackedRow(index, range(first, len(rows)), tokens, images)


def image_tokens(model: ModelShape, patches: int) -> int:
    """The tokens of the decoder that keep as many bytes for the backward pass as the vision model keeps for an image of
    `patches` patches, rounded up; 0 for a vision model that keeps nothing. The batch, the plan and the update weigh images
    by it."""
    image = MicroBatchShape([PackedPrompt(prompt=PromptSize(tokens=1, patches=patches), rows=())])
    kept = saved_tensors.tower(model, image)
    return math.ceil(kept / saved_tensors.decoder(model, image)) if kept else 0


def plan_micro_batches(
    model: ModelShape, prompts: Sequence[PromptSize], group: int, tokens: int, max_tokens: int
) -> list[MicroBatchShape]:
    """The micro-batches of an optimiser step over prompts with `group` completions of `tokens` tokens each. The images of a
    prompt are planned as one, which no other prompt has."""
    loads = [
        Load(tokens=prompt.tokens, images={str(k): image_tokens(model, prompt.patches)})
        for k, prompt in enumerate(prompts)
    ]
    rows = [[Load(tokens=tokens)] * group] * len(prompts)
    return [
        MicroBatchShape(
            [PackedPrompt(prompt=prompts[i], rows=(tokens,) * len(some)) for i, some in part]
        )
        for part in split_rows(loads, rows, max_tokens)
    ]
