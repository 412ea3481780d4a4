"""Logits -> tokens and their log-probs. Pure functions over rows; no row depends on another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.distributed.phases import phase
from vlrft.policy.linear_logprobs import scale_and_ban


def draw_uniforms(seeds: Sequence[int], length: int) -> Float[Tensor, "N L"]:
    """Numbers in [0, 1). Each row is drawn with its own seed, so that its tokens do not depend on other rows."""
    uniforms = torch.empty(len(seeds), length, dtype=torch.float64)
    generator = torch.Generator()
    for row, seed in enumerate(seeds):
        generator.manual_seed(seed)
        uniforms[row].uniform_(generator=generator)
    return uniforms


@phase("choose")
def sample_tokens(
    logits: Float[Tensor, "N V"],
    uniform: Float[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int = 0,
) -> tuple[Int[Tensor, " N"], Float[Tensor, " N"]]:
    """For each row a token and its log-prob under the distribution that it was sampled from.

    The cumulative distribution is inverted at `uniform`. `temperature` 0 takes the likeliest token, with its log-prob
    at temperature 1. Computed in float32 at least; banned tokens have probability 0. A row whose logits are not finite
    gets some token, with a log-prob that is not finite.
    """
    logits = scale_and_ban(logits, banned, temperature or 1.0)
    if temperature == 0:
        best = logits.argmax(1)
        return best, logits.gather(1, best[:, None])[:, 0] - logits.logsumexp(1)
    if top_k or top_p < 1:
        logits = truncate(logits, top_p=top_p, top_k=top_k)
    logprobs = logits.log_softmax(1)
    cumulative = logprobs.exp().cumsum(1, dtype=torch.float64)
    total = cumulative[:, -1:].contiguous()
    sampled = torch.searchsorted(cumulative, uniform[:, None] * total, right=True)
    last = torch.searchsorted(cumulative, total)  # the last token with any probability
    tokens = torch.minimum(sampled, last)[:, 0]  # rounding may point past it
    tokens = tokens.clamp(max=logits.shape[1] - 1)  # NaN: past every token
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def truncate(
    logits: Float[Tensor, "N V"], *, top_p: float = 1.0, top_k: int = 0
) -> Float[Tensor, "N V"]:
    """Logits with -inf for all but the `top_k` likeliest tokens and, of these, all but the smallest set that has `top_p` of
    the probability (at least one token)."""
    if top_k and top_k < logits.shape[1]:
        least = logits.topk(top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(stable=True, dim=1, descending=True)
        probabilities = ordered.softmax(1)
        before = probabilities.cumsum(1) - probabilities  # of the likelier tokens
        top_p = max(top_p, torch.finfo(before.dtype).tiny)  # 0 would remove every token
        logits = logits.masked_fill((before >= top_p).gather(1, order.argsort(1)), -torch.inf)
    return logits
