"""Operators and host syncs, counted over a few operators of known number."""

from __future__ import annotations

import torch

from vlrft.testing.operator_meter import count_operators


def test_operators_are_counted_and_views_are_not() -> None:
    weight = torch.nn.Parameter(torch.ones(3, 4))
    with count_operators() as counts:
        (weight.T.reshape(2, 6)[None] * 2).exp()
    assert counts.operators == {
        "clone": 1,
        "mul": 1,
        "exp": 1,
    }  # the reshape of a transposed matrix copies


def test_a_backward_pass_is_counted() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    loss = weight.exp().sum()
    with count_operators() as counts:
        loss.backward()  # type: ignore[no-untyped-call]
    assert counts.operators["mul"] == 1  # exp's gradient


def test_reads_of_what_the_device_holds_are_syncs() -> None:
    values = torch.arange(4).to("cpu")
    with count_operators() as counts:
        made = torch.zeros(4, device="cpu", dtype=torch.long)
        values = torch.arange(4).to("cpu")
        _ = values[values > 1], made.tolist(), int(values.sum()), (values + 1).cpu()
        torch.repeat_interleave(values, values, output_size=6)
    assert counts.syncs == {"index by a mask": 1, "tolist": 1, "_local_scalar_dense": 1, "cpu": 1}


def test_the_host_s_own_tensors_are_not_counted() -> None:
    with count_operators() as counts:
        lengths = torch.tensor([3, 1, 2])
        assert lengths.cumsum(0).tolist() == [3, 4, 6]
    assert not counts.syncs
    assert not counts.operators
