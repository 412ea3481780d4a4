"""Input of the formulas: a model's shapes, how it is trained, and the lengths of its prompts and completions.

Sizes are in bytes, elements or tokens. `element` is the size of one number in the model's dtype, `wide` of one that is
computed in float32 at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Gradient = Literal["all", "flow", "none"]
"""Of a part of the model: its weights are trained; frozen, but gradients pass through it; no gradients at all."""


@dataclass(frozen=True, kw_only=True)
class AdapterShape:
    """LoRA in every layer of a part."""

    rank: int = 0
    element: int = 4  # peft keeps adapters of a half-precision model in float32
    inputs: tuple[int, ...] = ()  # input width of each adapted linear module of a layer
    distinct: int = 0
    """Elements per token of the distinct inputs, without those that are saved anyway."""


@dataclass(frozen=True, kw_only=True)
class RecurrentShape:
    """Layers of a decoder with a gated delta rule in place of attention."""

    layers: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int  # of the convolution before the rule
    adapters: AdapterShape = AdapterShape()  # in its linear modules, the MLP's left out
    mlp_adapters: AdapterShape = AdapterShape()

    @property
    def values(self) -> int:
        """Elements for each token of all value heads."""
        return self.value_heads * self.value_dim

    @property
    def keys(self) -> int:
        """Elements for each token of all keys, and as many of all queries, repeated for each value head."""
        return self.value_heads * self.key_dim

    @property
    def convolved(self) -> int:
        """Elements for each token of queries, keys and values before they are repeated."""
        return 2 * self.key_heads * self.key_dim + self.values

    def matrices(self, hidden: int) -> int:
        """Numbers of a layer's linear modules, the MLP's left out."""
        return hidden * (self.convolved + 2 * self.values + 2 * self.value_heads)


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """A causal decoder: norms, grouped-query attention and a gated MLP in each layer; in some, another mixer than attention."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    later_norms: int = 0  # of a layer, in addition to those before attention and MLP
    head_norms: bool = False  # queries and keys are normed
    gated: bool = False  # the attention's output is gated, by as many further queries
    recurrent: RecurrentShape | None = None
    attention: Literal["sdpa", "eager", "flex_attention"] = "sdpa"
    gradient: Gradient = "all"
    adapters: AdapterShape = AdapterShape()

    @property
    def query(self) -> int:
        """Elements for each token of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        """Elements for each token of all key heads, and as many of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def attending(self) -> int:
        """Layers with attention."""
        return self.layers - (0 if self.recurrent is None else self.recurrent.layers)

    @property
    def matrices(self) -> int:
        """Numbers of the linear modules of a layer with attention."""
        queries = 3 if self.gated else 2  # the output's projection included
        return self.hidden * (queries * self.query + 2 * self.kv + 3 * self.inner)

    @property
    def largest_layer(self) -> int:
        """The most numbers of a layer's linear modules."""
        return max(self.matrices, self._recurrent_matrices)

    @property
    def of_layers(self) -> int:
        """Numbers of the linear modules of all layers."""
        recurrent = 0 if self.recurrent is None else self.recurrent.layers
        return self.attending * self.matrices + recurrent * self._recurrent_matrices

    @property
    def _recurrent_matrices(self) -> int:
        if self.recurrent is None:
            return 0
        return self.recurrent.matrices(self.hidden) + 3 * self.hidden * self.inner

    @property
    def repeats_keys(self) -> bool:
        """Whether keys and values are repeated for each query head: by eager attention, and by transformers for
        flex_attention unless the query heads are a power of two, as 12 and 28 are not."""
        power_of_two = self.heads & (self.heads - 1) == 0
        return self.attention == "eager" or (
            self.attention == "flex_attention" and not power_of_two
        )


@dataclass(frozen=True, kw_only=True)
class VisionShape:
    """A vision model, a transformer over patches, with a projector that merges patches into tokens."""

    width: int
    layers: int
    heads: int
    inner: int
    gated: bool  # a gated MLP and RMS norms, else a plain MLP and layer norms
    activated: int  # tensors of the inner width that the MLP's activation saves
    values: int = 1176  # numbers of a patch
    merge: int = 4  # patches of one token
    projected: int  # elements for each patch that the projector saves for the backward pass
    normed: int = 0  # and in float32, as inputs of RMS norms before it
    features: int = 1  # tensors of features, of which all but the first enter layers of the decoder
    interpolated: int = 0  # learned positions from which that of a patch is interpolated
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient: Gradient = "all"
    projector: bool = True  # whether it is trained
    adapters: AdapterShape = AdapterShape()


@dataclass(frozen=True, kw_only=True)
class WeightBytes:
    """Bytes of the parameters, and the number of elements of each trained one."""

    total: int
    trained: int
    embedding: int  # of the input embedding when it is trained, else 0
    tower: int = 0  # trained, of the vision model
    base: int = 0  # without adapters
    plain: int = (
        0  # of the files of the plain model: without adapters, and with 4-bit weights unpacked
    )
    adapted: int = 0  # elements of the largest weight with adapters
    packed: int = 0  # elements of the largest weight that is held in 4 bits
    half: int = 0  # trained, in half precision
    sizes: tuple[int, ...] = ()  # elements of each trained parameter


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A policy and how it is trained."""

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
    """A prompt's tokens, image tokens included, its images' patches, and the bytes of its videos' decoded frames."""

    tokens: int
    patches: int = 0
    frames: int = 0


@dataclass(frozen=True, kw_only=True)
class PackedPrompt:
    """A prompt with the completions that are packed into one row after it."""

    prompt: PromptSize
    rows: tuple[int, ...]  # tokens of each completion

    @property
    def packed(self) -> int:
        """Positions of the packed row: the last token of a completion is scored and never an input."""
        return self.prompt.tokens + sum(max(row - 1, 0) for row in self.rows)


@dataclass(frozen=True)
class MicroBatchShape:
    """Packed prompts of one forward pass, padded to the longest."""

    items: Sequence[PackedPrompt]

    @cached_property
    def length(self) -> int:
        return max(item.packed for item in self.items)

    @property
    def positions(self) -> int:
        return len(self.items) * self.length

    @property
    def square(self) -> int:
        """Pairs of positions, as eager attention has scores of them: rows x length x length."""
        return len(self.items) * self.length**2

    @property
    def patches(self) -> int:
        return sum(item.prompt.patches for item in self.items)

    @property
    def scored(self) -> int:
        """Completion tokens."""
        return sum(sum(item.rows) for item in self.items)
