"""FLOPs of attention and saved bytes, against hand-computed numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from vlrft.testing.pass_costs import count_costs


def test_flops_of_attention_are_those_of_its_pairs() -> None:
    query = torch.ones(1, 2, 5, 4, requires_grad=True)
    key = torch.ones(1, 2, 7, 4, requires_grad=True)
    with count_costs(nn.Identity()) as costs:
        out = functional.scaled_dot_product_attention(query, key, key)
    pairs = 2 * 5 * 7 * 4
    assert (
        costs.attention_flops == costs.flops == 2 * 2 * pairs
    )  # q·k and the weighted sum of values
    with count_costs(nn.Identity()) as costs:
        out.sum().backward()  # type: ignore[no-untyped-call]
    assert costs.attention_flops == 5 * 2 * pairs  # scores again, and four products of gradients


def test_saved_bytes_count_each_block_once_and_no_weights() -> None:
    layer = nn.Linear(4, 4, bias=False)
    rows = torch.ones(3, 4)
    with count_costs(layer) as costs:
        hidden = layer(rows)
        _ = hidden * hidden[:2].sum()  # both saved tensors share one block; the sum is a second one
    assert costs.saved_bytes == 2 * rows.nbytes + 4
    assert costs.flops == 2 * 3 * 4 * 4
    assert costs.attention_flops == 0
