"""Running prompts, each once, before their completions are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.distributed.phases import phase
from vlrft.policy.attention.compact import count_common_tokens
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.backbone import Backbone
from vlrft.rollout.engines.prompt_cache import PromptCache
from vlrft.rollout.engines.types import Request
from vlrft.schema import Prompt


@dataclass(frozen=True, kw_only=True)
class Prefilled:
    """Prompts that have been run. Axes: B prompts, A rotary axes, H hidden."""

    prompts: PromptCache
    next: Int[Tensor, "A B"]  # rotary position of the first token after each prompt
    states: Float[Tensor, "B H"]  # hidden state of each prompt's last token

    def append(self, others: Prefilled) -> Prefilled:
        """With other prompts after these. The caches of both become one."""
        self.prompts.append(others.prompts)
        return Prefilled(
            prompts=self.prompts,
            next=torch.cat([self.next, others.next], 1),
            states=torch.cat([self.states, others.states]),
        )


@phase("prefill")
def prefill(backbone: Backbone, requests: Sequence[Request], *, pad_id: int) -> Prefilled:
    """Runs each prompt once, padded on the right, and what all of them begin with once."""
    from transformers import DynamicCache

    prompts: list[Prompt] = [request.prompt for request in requests]
    lengths = [len(prompt.ids) for prompt in prompts]
    longest = max(lengths)
    ids = torch.full((len(prompts), longest), pad_id)
    positions = torch.zeros(backbone.axes, len(prompts), longest + 1, dtype=torch.long)
    for b, (request, length) in enumerate(zip(requests, lengths, strict=True)):
        ids[b, :length] = torch.tensor(request.prompt.ids)
        positions[:, b, : length + 1] = backbone.positions(request.prompt, 1, request.id)
    device, ends = backbone.device, torch.tensor(lengths)
    each = torch.arange(len(prompts))
    cache = DynamicCache(config=backbone.decoder.config)
    inputs = backbone.embed(ids.to(device), backbone.collect_images(prompts))
    rows = PackedRows.of_prompts(lengths, count_common_tokens(prompts, backbone.place_ids))
    states = backbone.prefill(inputs, positions[..., :-1].to(device), rows, cache)
    return Prefilled(
        prompts=PromptCache.of(cache, lengths),
        next=positions[:, each, ends].to(device),
        states=states[each.to(device), (ends - 1).to(device)],
    )
