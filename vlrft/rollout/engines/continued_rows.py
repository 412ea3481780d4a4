"""The attention of prompts that are run from where kept contexts end: only their new tokens, side by side and without padding.

A new token attends to the keys of its context and, causally, to the new tokens before it. The two softmaxes are joined exactly by their
log-sum-exps (`vlrft.policy.attention.join`). Axes: B prompts, U new tokens of all of them, Q of the prompt with most, P positions of
the longest prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.choice import choose_kernel
from vlrft.policy.attention.decoder import refuse_unsupported
from vlrft.policy.attention.join import join_outputs
from vlrft.policy.attention.one_token import Part, prepare_keys
from vlrft.policy.backbone import Backbone, DecoderInputs
from vlrft.rollout.engines.kept_contexts import Context, KeptContexts
from vlrft.rollout.engines.own_attention import own_attention
from vlrft.rollout.engines.prompt_cache import PromptCache

ATTENTION = "vlrft_continued"  # the name under which transformers knows the attention function


class ContinuedRows:
    """The keys of the prompts, and where their new tokens are; has the methods of a transformers cache that a decoder calls."""

    def __init__(
        self,
        contexts: Sequence[Context],
        new: Sequence[int],
        kept: KeptContexts,
        device: torch.device,
        *,
        drop: bool,
    ) -> None:
        """`new` [B]: new tokens of each prompt, at least one."""
        self._kept, self._drop = kept, drop
        count, before = torch.tensor(new), torch.tensor([len(c.ids) for c in contexts])
        lengths = before + count
        self.prompts = PromptCache(keys={}, values={}, lengths=tuple(lengths.tolist()))
        self.width, width = max(new), self.prompts.longest  # Q, P
        last = count.cumsum(0) - 1
        self.ends: Int[Tensor, " B"] = last.to(device)
        within = torch.arange(self.width).minimum(
            count[:, None] - 1
        )  # the last again after its end
        self._padded: Int[Tensor, " BQ"] = (
            ((last - count + 1)[:, None] + within).flatten().to(device)
        )
        prompt = torch.arange(len(new)).repeat_interleave(count)
        at = torch.arange(len(prompt)) - (last - count + 1)[prompt]
        self._real: Int[Tensor, " U"] = (prompt * self.width + at).to(device)
        self._places: Int[Tensor, " U"] = (prompt * width + before[prompt] + at).to(device)
        slots = [_repeat_last(context.slots, width) for context in contexts]
        self._slots: Int[Tensor, "B P"] = torch.stack(slots).to(device)
        self._before: Int[Tensor, " B"] = before.to(device)
        self._past: Part | None = None

    def update(
        self, keys: Float[Tensor, "1 W U D"], values: Float[Tensor, "1 W U D"], layer: int
    ) -> tuple[Float[Tensor, "1 W U D"], Float[Tensor, "1 W U D"]]:
        """Fills the layer's part of `prompts`; returns what it is given."""
        for held, kept, new in zip(
            (self.prompts.keys, self.prompts.values),
            self._kept.read(layer, self._slots, drop=self._drop),
            (keys, values),
            strict=True,
        ):
            kept.flatten(0, 1).index_copy_(0, self._places, new[0].transpose(0, 1))
            held[layer] = kept
        return keys, values

    def get_seq_length(self, layer: int = 0) -> int:
        return 0

    def pad(self, tokens: Float[Tensor, "1 H U D"]) -> Float[Tensor, "B H Q D"]:
        """A row for each prompt, its last token again after its end."""
        rows = tokens[0].transpose(0, 1)[self._padded]
        return rows.view(-1, self.width, *rows.shape[1:]).transpose(1, 2)

    def attend_past(
        self, layer: int, query: Float[Tensor, "B Q H D"], scale: float
    ) -> tuple[Float[Tensor, "B Q W R D"], Float[Tensor, "B Q W R"]]:
        """Output and log-sum-exp over the keys of the contexts."""
        keys, values = self.prompts.keys[layer], self.prompts.values[layer]
        if self._past is None:
            self._past = prepare_keys(query, self._before, keys=keys.shape[1], queries=self.width)
        return self._past(query, keys, values, scale)

    def unpad(self, tokens: Float[Tensor, "B Q W R D"]) -> Float[Tensor, "1 U H D"]:
        return tokens.flatten(2, 3).flatten(0, 1)[self._real][None]


def run_continued(
    backbone: Backbone,
    inputs: DecoderInputs,
    positions: Int[Tensor, "A 1 U"],
    rows: ContinuedRows,
) -> Float[Tensor, "1 U H"]:
    """Hidden states of the new tokens; their keys and values, and those of the contexts, fill `rows.prompts`."""
    with own_attention(backbone, ATTENTION, attend_continued, inputs.embeds) as arguments:
        return backbone.continue_rows(
            inputs, positions, past_key_values=rows, continued=rows, **arguments
        )


def attend_continued(
    module: Any,
    query: Float[Tensor, "1 H U D"],
    key: Float[Tensor, "1 W U D"],
    value: Float[Tensor, "1 W U D"],
    attention_mask: object,
    *,
    scaling: float,
    continued: ContinuedRows,
    **options: Any,
) -> tuple[Float[Tensor, "1 U H D"], None]:
    """An attention function for transformers: new tokens after contexts."""
    refuse_unsupported(options, 0.0, continued.prompts.longest)
    queries = continued.pad(query)
    past, past_lse = continued.attend_past(module.layer_idx, queries.transpose(1, 2), scaling)
    own, own_lse = choose_kernel(query).forward(
        queries, continued.pad(key), continued.pad(value), causal=True, scale=scaling
    )
    own, own_lse = own.transpose(1, 2).reshape(past.shape), own_lse.mT.reshape(past_lse.shape)
    return continued.unpad(join_outputs(own, own_lse, past, past_lse)), None


def _repeat_last(slots: Int[Tensor, " L"], length: int) -> Int[Tensor, " P"]:
    """Masked values must be finite: those of the context itself."""
    return slots[torch.arange(length).clamp_(max=len(slots) - 1)]
