"""The split of gradients into buckets; tests/distributed/test_ranks.py sums them over two processes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vlrft.distributed.ranks import Ranks
from vlrft.engine.gradient_buckets import GradientBuckets


def test_buckets_follow_the_backward_pass_and_hold_one_dtype() -> None:
    weights = [nn.Parameter(torch.zeros(64)) for _ in range(4)]
    weights += [nn.Parameter(torch.zeros(1000)), nn.Parameter(torch.zeros(3).bfloat16())]
    buckets = GradientBuckets(weights, Ranks(), 2 * 64 * 4).buckets
    places = [[next(k for k, w in enumerate(weights) if w is one) for one in b] for b in buckets]
    assert places == [[5], [4], [3, 2], [1, 0]]


def test_a_second_gradient_of_one_backward_pass_is_refused() -> None:
    weights = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    sums = GradientBuckets(weights, Ranks(size=2))
    sums.begin()
    sums.complete(weights[0])
    with pytest.raises(RuntimeError, match="a second gradient"):
        sums.complete(weights[0])
