"""Hidden states -> log-probs and entropies of given tokens, without ever holding all logits."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK_LOGITS = 2**26  # logits that are held at once: 256 MiB in float32


def token_scores(
    head: nn.Module,
    states: Float[Tensor, "N H"],
    targets: Int[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    temperature: float,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Log-probs and entropies of `targets`, logits a chunk at a time and none of them kept when there are several."""
    size = max(CHUNK_LOGITS // len(banned), 1)

    def scores(part: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        return scores_of(head(part), wanted, banned, temperature, entropy_gradient)

    if len(targets) <= size:
        return scores(states, targets)
    pairs = zip(torch.split(states, size), torch.split(targets, size), strict=True)
    chunks = [checkpoint(scores, part, wanted, use_reentrant=False) for part, wanted in pairs]
    logprobs, entropy = zip(*chunks, strict=True)
    return torch.cat(logprobs), torch.cat(entropy)


def scores_of(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    temperature: float,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """log-softmax(logits / temperature) without the banned tokens, at `targets`, and its entropy, which has a gradient
    only when `entropy_gradient`.

    In float32 at least; a banned target has -inf.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    logits = (logits / temperature).masked_fill(banned, -torch.inf)
    total = logits.logsumexp(1)
    logprobs = logits.gather(1, targets[:, None])[:, 0] - total
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        probs = logits.softmax(1)
        # H = log Z − Σ p z, banned tokens (p = 0, z = −inf) left out
        entropy = total - (probs * logits.masked_fill(banned, 0.0)).sum(1)
    return logprobs, entropy
