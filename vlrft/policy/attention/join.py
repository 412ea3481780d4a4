"""Joins two parts of one attention: the same queries over two disjoint sets of keys."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def join(
    output: Float[Tensor, "*S D"],
    lse: Float[Tensor, "*S"],
    other: Float[Tensor, "*S D"],
    other_lse: Float[Tensor, "*S"],
) -> tuple[Float[Tensor, "*S D"], Float[Tensor, "*S"]]:
    """Output and log-sum-exp over both sets of keys, from those over each: o = σ(l₂ − l₁) o₂ + σ(l₁ − l₂) o₁ and
    l = log(exp l₁ + exp l₂), computed in float32 at least. One of the two log-sum-exps may be -inf, not both."""
    share = (other_lse - lse).sigmoid().unsqueeze(-1)
    joined = torch.lerp(output.to(share.dtype), other.to(share.dtype), share)
    return joined.to(output.dtype), torch.logaddexp(lse, other_lse)


def join_outputs(
    output: Float[Tensor, "*S D"],
    lse: Float[Tensor, "*S"],
    other: Float[Tensor, "*S D"],
    other_lse: Float[Tensor, "*S"],
) -> Float[Tensor, "*S D"]:
    """The output alone of `join`, contiguous, in the dtype of the parts and in three operators, for sampling."""
    share = torch.empty_like(lse, dtype=output.dtype)
    torch.sigmoid(other_lse - lse, out=share)
    joined = torch.empty(output.shape, dtype=output.dtype, device=output.device)
    return torch.lerp(output, other, share[..., None], out=joined)
