"""Hidden states -> log-probs of target tokens and entropies, without all logits in memory at once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from vlrft.memory.limits import chunk_rows


def linear_logprobs(
    head: nn.Module,
    states: Float[Tensor, "N H"],
    targets: Int[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    temperature: float,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Log-probs of `targets` and entropies. Logits are computed chunk by chunk and not kept; the backward pass computes
    them again. The entropy has a gradient only with `entropy_gradient`."""
    size = chunk_rows(len(banned), gpu=states.is_cuda)
    if type(head) is nn.Linear and head.bias is None and not entropy_gradient:
        pair: tuple[Tensor, Tensor] = _LinearLogprobs.apply(
            states, head.weight, targets, banned, temperature, size
        )
        return pair

    def of_chunk(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return logprobs_of_logits(head(states), targets, banned, temperature, entropy_gradient)

    if len(targets) <= size:
        return of_chunk(states, targets)
    pairs = zip(torch.split(states, size), torch.split(targets, size), strict=True)
    chunks = [checkpoint(of_chunk, *pair, use_reentrant=False) for pair in pairs]
    logprobs, entropy = zip(*chunks, strict=True)
    return torch.cat(logprobs), torch.cat(entropy)


class _LinearLogprobs(torch.autograd.Function):
    """`linear_logprobs` for a head that is a matrix W: z = W s / τ, log π(t) = z_t − log Z, H = −Σ p log p.

    Only log Z is kept: ∂ log π(t) / ∂ z = 1_t − p, with p = exp(z − log Z) computed again a chunk at a time. Buffers are
    changed in place, and W's gradient is accumulated in one of them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        targets: Tensor,
        banned: Tensor,
        temperature: float,
        size: int,
    ) -> tuple[Tensor, Tensor]:
        kind = torch.promote_types(states.dtype, torch.float32)
        kept = (states.new_empty(len(targets), dtype=kind) for _ in range(3))
        logprobs, entropy, total = (
            kept  # no views: an engine hooks its gathering of weights to them
        )
        for rows in _chunks(len(targets), size):
            z = _scaled(F.linear(states[rows], weight), banned, temperature)
            total[rows] = z.logsumexp(1)
            logprobs[rows] = z.gather(1, targets[rows, None])[:, 0] - total[rows]
            p = z.sub_(total[rows, None]).exp_()
            entropy[rows] = torch.special.entr(p, out=p).sum(1)
        ctx.save_for_backward(states, weight, targets, banned, total)
        ctx.temperature, ctx.size = temperature, size
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, targets, banned, total = ctx.saved_tensors
        outer = gradients[0] / ctx.temperature
        of_states = torch.zeros_like(states) if ctx.needs_input_grad[0] else None
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for rows in _chunks(len(targets), ctx.size):
            z = _scaled(F.linear(states[rows], weight), banned, ctx.temperature)
            of_z = z.sub_(total[rows, None]).exp_().mul_(-outer[rows, None])
            of_target = outer[rows].masked_fill(banned[targets[rows]], 0.0)
            of_z.scatter_add_(1, targets[rows, None], of_target[:, None])
            of_logits = of_z.to(states.dtype)
            if of_states is not None:
                torch.mm(of_logits, weight, out=of_states[rows])
            if of_weight is not None:
                of_weight.addmm_(of_logits.T, states[rows])
        return of_states, of_weight, None, None, None, None


def _chunks(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _scaled(logits: Tensor, banned: Tensor, temperature: float) -> Tensor:
    """z = logits / τ in float32 at least, −inf at banned tokens, in a new buffer."""
    kind = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(kind).div_(temperature).masked_fill_(banned, -torch.inf)


def logprobs_of_logits(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    temperature: float,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """log-softmax(logits / temperature) without the banned tokens, at `targets`, and its entropy, which has a gradient
    only with `entropy_gradient`. Float32 at least; a banned target has -inf."""
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
