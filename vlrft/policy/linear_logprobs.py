"""Hidden states -> log-probs of target tokens and entropies, without all logits in memory at once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from vlrft.memory.limits import chunk_rows
from vlrft.policy.logit_passes import choose_passes


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

    Only log Z is kept: ∂ log π(t) / ∂ z = 1_t − p, with p = exp(z − log Z) computed again a chunk at a time; W's gradient
    is accumulated in one buffer. The ban is the head's bias, -inf at banned tokens, and τ divides the states where that
    rounds no more than the logits; so neither takes a pass over [chunk, V].
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
        # three tensors, not views of one: an engine may hook the gathering of its weights to an output
        logprobs, entropy, total = (states.new_empty(len(targets), dtype=kind) for _ in range(3))
        passes, head = choose_passes(states.device), _Head(weight, banned, temperature)
        # a token with a finite logit, where the target is banned
        is_banned, allowed = banned[targets], (~banned).int().argmax()
        safe = torch.where(is_banned, allowed, targets)
        for rows in _chunks(len(targets), size):
            values = passes.values(head.logits(states[rows]), safe[rows], head.scale)
            logprobs[rows], entropy[rows], total[rows] = values
        ctx.save_for_backward(states, weight, targets, banned, total)
        ctx.temperature, ctx.size = temperature, size
        ctx.mark_non_differentiable(entropy)
        return logprobs.masked_fill_(is_banned, -torch.inf), entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, targets, banned, total = ctx.saved_tensors
        passes, head = choose_passes(states.device), _Head(weight, banned, ctx.temperature)
        outer = gradients[0] / ctx.temperature
        of_target = outer.masked_fill(banned[targets], 0.0)
        of_states = torch.zeros_like(states) if ctx.needs_input_grad[0] else None
        of_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for rows in _chunks(len(targets), ctx.size):
            of_logits = passes.gradient(
                head.logits(states[rows]),
                targets[rows],
                head.scale,
                total[rows],
                outer[rows],
                of_target[rows],
            )
            if of_states is not None:
                torch.mm(of_logits, weight, out=of_states[rows])
            if of_weight is not None:
                of_weight.addmm_(of_logits.T, states[rows])
            del of_logits  # before the next chunk's logits are made
        return of_states, of_weight, None, None, None, None


class _Head:
    """The matrix with its ban and its temperature."""

    def __init__(self, weight: Tensor, banned: Tensor, temperature: float) -> None:
        self.weight = weight
        self.bias = torch.zeros_like(banned, dtype=weight.dtype).masked_fill_(banned, -torch.inf)
        half = weight.dtype.itemsize < torch.float32.itemsize
        self.of_states = 1.0 if half else 1 / temperature
        self.scale = 1 / temperature if half else 1.0
        """The factor of the logits that is left: in half precision they are rounded as the sampler's are, before τ."""

    def logits(self, states: Tensor) -> Tensor:
        """In a new buffer."""
        scaled = states if self.of_states == 1 else states * self.of_states
        return F.linear(scaled, self.weight, self.bias)


def _chunks(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def logprobs_of_logits(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, " N"],
    banned: Bool[Tensor, " V"],
    temperature: float,
    entropy_gradient: bool = False,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """log-softmax(logits / temperature) without the banned tokens, at `targets`, and its entropy, which has a gradient
    only with `entropy_gradient`. Float32 at least; a banned target has -inf."""
    every = scale_and_ban(logits, banned, temperature).log_softmax(1)
    logprobs = every.gather(1, targets[:, None])[:, 0]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        # H = −Σ p log p, banned tokens (p = 0, log p = −inf) left out
        entropy = -(every.exp() * every.masked_fill(banned, 0.0)).sum(1)
    return logprobs, entropy


def scale_and_ban(
    logits: Float[Tensor, "N V"], banned: Bool[Tensor, " V"], temperature: float
) -> Float[Tensor, "N V"]:
    """logits / temperature, -inf at banned tokens, in float32 at least; a new tensor, made in one pass."""
    ban = torch.where(banned, -torch.inf, 0.0)
    return torch.add(ban, logits, alpha=1 / temperature)
