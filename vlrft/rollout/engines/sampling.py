"""Logits -> tokens and their log-probs. Pure functions, a row each; no row knows of another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.tracing.phases import phase


def uniforms(seeds: Sequence[int], length: int) -> Float[Tensor, "N L"]:
    """Numbers in [0, 1) for each row from a generator of its own, so that a row's tokens do not depend on others."""
    drawn = torch.empty(len(seeds), length, dtype=torch.float64)
    generator = torch.Generator()
    for row, seed in enumerate(seeds):
        generator.manual_seed(seed)
        drawn[row].uniform_(generator=generator)
    return drawn


@phase("choose")
def choose(
    logits: Float[Tensor, "N V"],
    uniform: Float[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int = 0,
) -> tuple[Int[Tensor, " N"], Float[Tensor, " N"]]:
    """A token a row and its log-prob under the distribution it was drawn from.

    Drawn by inverting the cumulative distribution at `uniform`. `temperature` 0 takes the likeliest token, its
    log-prob then that of temperature 1. Float32 at least; banned tokens have no probability.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    logits = (logits / (temperature or 1.0)).masked_fill(banned, -torch.inf)
    if temperature == 0:
        best = logits.argmax(1)
        return best, logits.gather(1, best[:, None])[:, 0] - logits.logsumexp(1)
    if top_k or top_p < 1:
        logits = truncate(logits, top_p=top_p, top_k=top_k)
    logprobs = logits.log_softmax(1)
    below = logprobs.exp().cumsum(1, dtype=torch.float64)
    total = below[:, -1:].contiguous()
    drawn = torch.searchsorted(below, uniform[:, None] * total, right=True)
    last = torch.searchsorted(
        below, total
    )  # the last token with any probability: rounding goes no further
    tokens = torch.minimum(drawn, last)[:, 0]
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def truncate(
    logits: Float[Tensor, "N V"], *, top_p: float = 1.0, top_k: int = 0
) -> Float[Tensor, "N V"]:
    """Logits with -inf for all but the `top_k` likeliest tokens, and of these all but the smallest set that holds
    `top_p` of the probability (at least one token)."""
    if top_k and top_k < logits.shape[1]:
        least = logits.topk(top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ordered, order = logits.sort(stable=True, dim=1, descending=True)
        shares = ordered.softmax(1)
        beyond = (
            shares.cumsum(1) - shares >= top_p
        )  # what comes before a token already holds enough
        logits = logits.masked_fill(beyond.gather(1, order.argsort(1)), -torch.inf)
    return logits
