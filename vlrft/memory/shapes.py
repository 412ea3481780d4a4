"""What the arithmetic is told: a model's shapes, how it is trained, and the lengths of what it works on.

Everything is in bytes, elements or tokens. `element` is the width of a number of the model's dtype, `wide` that of
what is computed in float32 at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

GRADIENT = Literal["all", "flow", "none"]


@dataclass(frozen=True, kw_only=True)
class AdapterShape:
    """LoRA in every layer of a part: the linear modules that have one, by their inputs' widths."""

    rank: int = 0
    element: int = 4  # peft keeps adapters of a half-precision model in float32
    inputs: tuple[int, ...] = ()  # a width for each adapted module of a layer
    distinct: int = (
        0  # elements a token of the inputs that differ; those that are kept anyway do not count
    )


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """A causal decoder of the Llama kind: two norms, grouped-query attention and a gated MLP in each layer."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    attention: Literal["sdpa", "eager", "flex_attention"] = "sdpa"
    gradient: GRADIENT = "all"  # flow: frozen weights through which gradients pass
    adapters: AdapterShape = AdapterShape()

    @property
    def query(self) -> int:
        """Elements a token of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        """Elements a token of all key heads, or of all value heads."""
        return self.kv_heads * self.head_dim


@dataclass(frozen=True, kw_only=True)
class VisionShape:
    """A vision tower of the Qwen kind."""

    width: int
    layers: int
    heads: int
    inner: int
    gated: bool  # a gated MLP and RMS norms (Qwen2.5-VL), else a plain one and layer norms
    values: int = 1176  # of the pixels of a patch
    merge: int = 4  # patches a token
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient: GRADIENT = "all"
    projector: bool = True  # whether what maps features into the decoder is trained
    adapters: AdapterShape = AdapterShape()


@dataclass(frozen=True, kw_only=True)
class WeightBytes:
    """Bytes of parameters, and how many numbers each trained one has."""

    total: int
    trained: int
    embedding: int  # the input embedding's, when it is trained, else 0
    tower: int = 0  # trained ones of the tower
    base: int = 0  # without adapters; what a merged copy takes
    half: int = 0  # trained ones in half precision
    sizes: tuple[int, ...] = ()  # elements of each trained parameter


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A policy."""

    decoder: DecoderShape
    tower: VisionShape | None
    weights: WeightBytes
    element: int = 4
    checkpointing: bool = False
    head_trained: bool = True
    gpu: bool = False

    @property
    def wide(self) -> int:
        return max(4, self.element)


@dataclass(frozen=True, kw_only=True)
class PromptSize:
    """A prompt's tokens, those of its images included, and its images' patches."""

    tokens: int
    patches: int = 0


@dataclass(frozen=True, kw_only=True)
class PackedPrompt:
    """A prompt and the completions that are packed behind it."""

    prompt: PromptSize
    rows: tuple[int, ...]  # tokens of each completion

    @property
    def packed(self) -> int:
        """Positions of the packed row; a completion's last token is never fed."""
        return self.prompt.tokens + sum(max(row - 1, 0) for row in self.rows)


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch: items padded to the longest."""

    items: Sequence[PackedPrompt]

    @cached_property
    def length(self) -> int:
        return max(item.packed for item in self.items)

    @property
    def positions(self) -> int:
        return len(self.items) * self.length

    @property
    def square(self) -> int:
        """Entries of the mask: rows x length x length."""
        return len(self.items) * self.length**2

    @property
    def patches(self) -> int:
        return sum(item.prompt.patches for item in self.items)

    @property
    def scored(self) -> int:
        return sum(sum(item.rows) for item in self.items)
