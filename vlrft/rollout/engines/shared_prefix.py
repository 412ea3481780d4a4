"""Decoding with a KV cache that keeps each prompt once: all its completions attend to the same copy.

A row attends to its prompt (P keys, shared) and to its completion (T keys). The two softmaxes are joined exactly by their
log-sum-exps (`vlrft.policy.attention.join`). Memory is B·P + N·T keys instead of N·(P + T), and a step copies none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.policy.attention.decoder import refuse_unsupported
from vlrft.policy.attention.join import join_outputs
from vlrft.policy.attention.one_token import Part, prepare_keys
from vlrft.policy.backbone import Backbone
from vlrft.rollout.engines.completion_cache import CompletionCache
from vlrft.rollout.engines.own_attention import own_attention
from vlrft.rollout.engines.prompt_cache import PromptCache, row_index

ATTENTION = "vlrft_shared_prefix"  # the name under which transformers knows the attention function


@dataclass(frozen=True, kw_only=True)
class SharedPrompts:
    """The attention of N rows to their B prompts. Rows of a prompt are next to each other; S is the most that one has.

    Queries are laid out as [B S]: the rows as they are where each prompt has S of them, else copied to their places.
    """

    cache: PromptCache
    part: Part
    width: int  # S
    rows: Int[Tensor, " BS"] | None  # the row at each place; None: place i has row i
    places: tuple[Int[Tensor, " N"], Int[Tensor, " N"]] | None  # of each row, in B and in S

    @staticmethod
    def of(cache: PromptCache, counts: Sequence[int]) -> SharedPrompts:
        """`counts`: rows of each prompt, at least one."""
        width = max(counts)
        part = cache.prepare(width)
        if min(counts) == width:
            return SharedPrompts(cache=cache, part=part, width=width, rows=None, places=None)
        device = cache.first.device
        count = torch.tensor(counts)
        first = count.cumsum(0) - count
        within = torch.arange(width).minimum(count[:, None] - 1)  # empty places repeat the last row
        prompt = row_index(counts, torch.device("cpu"))
        places = prompt.to(device), (torch.arange(len(prompt)) - first[prompt]).to(device)
        rows = (first[:, None] + within).flatten().to(device)
        return SharedPrompts(cache=cache, part=part, width=width, rows=rows, places=places)

    def attend(
        self, layer: int, query: Float[Tensor, "N H D"], scale: float
    ) -> tuple[Float[Tensor, "B S W R D"], Float[Tensor, "B S W R"]]:
        """Output and log-sum-exp of each row's queries over its prompt; B S is N 1 where rows are not at their places."""
        placed = query if self.rows is None else query[self.rows]
        output, lse = self.part(
            torch.unflatten(placed, 0, (-1, self.width)),
            self.cache.keys[layer],
            self.cache.values[layer],
            scale,
        )
        if self.places is None:
            return output, lse
        return output[self.places][:, None], lse[self.places][:, None]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """All keys that a decoding step attends to, prepared for its layers."""

    prompts: SharedPrompts
    own: Part  # the first `used` keys of each completion
    used: int
    longest: int  # tokens of the longest prompt with its completion
    _rotation: list[tuple[Tensor, Tensor]] = field(default_factory=list[tuple[Tensor, Tensor]])

    @staticmethod
    def of(prompts: SharedPrompts, completions: CompletionCache, used: int | None = None) -> Keys:
        """The keys after the next token is added at `completions.at`. `used`: keys that are read, at least those of every
        row; None where all rows have the same number."""
        like, at = prompts.cache.first, completions.at
        if isinstance(at, int):
            used, lengths = at + 1, None
        else:
            used, lengths = completions.room if used is None else used, at + 1
        return Keys(
            prompts=prompts,
            own=prepare_keys(like, lengths, keys=used, queries=1),
            used=used,
            longest=prompts.cache.longest + used,
        )

    def rotation(
        self, position_embeddings: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "N 1 1 D"], Float[Tensor, "N 1 1 D"]]:
        """The step's cosines and sines, the first half of the sines negated; computed for the first layer alone."""
        if not self._rotation:
            cos, sin = (part.unsqueeze(2) for part in position_embeddings)
            low, high = sin.chunk(2, -1)
            self._rotation.append((cos, torch.cat([-low, high], -1)))
        return self._rotation[0]


def decode(
    backbone: Backbone,
    embeds: Float[Tensor, "N 1 H"],
    positions: Int[Tensor, "A N 1"],
    completions: CompletionCache,
    keys: Keys,
) -> Float[Tensor, "N 1 H"]:
    """Hidden states of one new token for each row; its keys and values are added to `completions`."""
    with own_attention(backbone, ATTENTION, attend_shared_prefix, embeds) as arguments:
        return backbone.call_decoder(
            embeds, positions, past_key_values=completions, shared_prefix=keys, **arguments
        )


def attend_shared_prefix(
    module: Any,
    query: Float[Tensor, "N H 1 D"],
    key: Float[Tensor, "N C W D"],
    value: Float[Tensor, "N C W D"],
    attention_mask: object,
    *,
    scaling: float,
    shared_prefix: Keys,
    **options: Any,
) -> tuple[Float[Tensor, "N 1 H D"], None]:
    """An attention function for transformers: one new token for each row; keys and values as `CompletionCache` has them."""
    refuse_unsupported(options, 0.0, shared_prefix.longest)
    rows, heads, _, size = query.shape
    used = shared_prefix.used
    prompt, prompt_lse = shared_prefix.prompts.attend(
        module.layer_idx, query.view(rows, heads, size), scaling
    )
    output, lse = shared_prefix.own(
        query.view(rows, 1, heads, size), key[:, :used], value[:, :used], scaling
    )
    joined = join_outputs(output.view_as(prompt), lse.view_as(prompt_lse), prompt, prompt_lse)
    return joined.view(rows, 1, heads, size), None
