"""The packed forward pass beside transformers' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from vlrft.policy.logprobs import packed_logprobs, replicated_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy

TOLERANCE = 1e-9  # of log-probs
GRADIENT_TOLERANCE = 1e-6  # relative to the norm: rotations of a vision model are float32


@contextmanager
def in_float64() -> Iterator[None]:
    """A context in which float64 tensors stay float64 where transformers computes in float32 for half precision's sake, as in
    norms and recurrent layers (a vision model may mix both). So two orders of summation differ by 1e-9 at most, and a leak is not taken for rounding."""
    to, to_float = Tensor.to, Tensor.float

    def keep(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if tensor.dtype == torch.float64 and torch.float32 in (*args, *kwargs.values()):
            return tensor.contiguous()
        return to(tensor, *args, **kwargs)

    def keep_float(tensor: Tensor) -> Tensor:
        return tensor if tensor.dtype == torch.float64 else to_float(tensor)

    with patch.object(Tensor, "to", keep), patch.object(Tensor, "float", keep_float):
        yield


def assert_packed_equals_replicated(policy: Policy, items: list[PackItem], mask: Tensor) -> None:
    """Log-probs and the gradients of their sum are those of transformers' own forward pass, a row for each completion."""
    results = []
    for logprobs_of in (packed_logprobs, replicated_logprobs):
        policy.model.zero_grad()
        with in_float64() if policy.backbone.recurrent_layers else nullcontext():
            logprobs = logprobs_of(policy, items, mask=mask, temperature=0.7).logprobs
            logprobs.sum().backward()  # type: ignore[no-untyped-call]
        named = policy.model.named_parameters()
        results.append((logprobs.detach(), {n: p.grad for n, p in named if p.grad is not None}))
    policy.model.zero_grad()
    (packed, gradients), (replicated, expected) = results
    assert float((packed - replicated).abs().max()) <= TOLERANCE
    assert gradients.keys() == expected.keys() == policy.trained_weights().keys()
    for name, gradient in expected.items():
        scale = max(float(gradient.norm()), 1e-4)  # some gradients are zero up to rounding
        assert float((gradients[name] - gradient).norm()) <= GRADIENT_TOLERANCE * scale, name
