"""The split attention of packed rows against attention with a dense mask: outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.policy.attention.layouts import (
    HEADS,
    KEY_HEADS,
    LAYOUTS,
    SCALE,
    WIDTH,
    define,
    draw_inputs,
    packed_rows,
)
from vlrft.policy.attention import choice, packed, padded, varlen
from vlrft.policy.attention.calls import Calls
from vlrft.policy.attention.cpu_flash import CpuFlash
from vlrft.policy.attention.decoder import refuse_unsupported
from vlrft.policy.attention.packed import PackedAttention
from vlrft.policy.attention.padded import PaddedCalls, group_spans
from vlrft.policy.attention.plain import Plain
from vlrft.policy.attention.rows import PackedRows, Span
from vlrft.policy.attention.varlen import Sequences, VarlenCalls
from vlrft.schema.errors import ConfigError

CPU = torch.device("cpu")


def sequences(tensor: Tensor, ends: Tensor) -> list[Tensor]:
    """[1 H Q D] of each sequence of a varlen tensor."""
    sizes: list[int] = ends.diff().tolist()
    return [part.transpose(0, 1)[None] for part in torch.split(tensor, sizes)]


def define_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Sequences,
    keys: Sequences,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """FlashAttention's varlen operator as it is documented: one sequence after another."""
    parts = sequences(query, queries.ends), sequences(key, keys.ends), sequences(value, keys.ends)
    assert queries.longest == max(part.shape[2] for part in parts[0])
    assert keys.longest == max(part.shape[2] for part in parts[1])
    results = [
        Plain().forward(*some, causal=causal, scale=scale) for some in zip(*parts, strict=True)
    ]
    outputs = [output[0].transpose(0, 1) for output, _ in results]
    return torch.cat(outputs), torch.cat([lse[0] for _, lse in results], 1)


def define_varlen_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    queries: Sequences,
    keys: Sequences,
    *,
    causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """The gradient of the varlen operator, likewise."""
    spans = [queries.ends, queries.ends, keys.ends, keys.ends, queries.ends]
    tensors = [grad, query, key, value, output]
    parts = [sequences(tensor, ends) for tensor, ends in zip(tensors, spans, strict=True)]
    lses = [part.T[None] for part in torch.split(lse.T, queries.ends.diff().tolist())]
    results = [
        Plain().backward(*some, causal=causal, scale=scale)
        for some in zip(*parts, lses, strict=True)
    ]
    return tuple(
        torch.cat([part[0].transpose(0, 1) for part in some]) for some in zip(*results, strict=True)
    )


@pytest.fixture(params=["CPU's own kernel", "plain products", "varlen"])
def make_calls(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Tensor, PackedRows], Calls]:
    """The calls of each kind of kernel; varlen's two operators, which only CUDA has, are replaced by their definition."""
    monkeypatch.setattr(varlen, "_forward", define_varlen)
    monkeypatch.setattr(varlen, "_backward", define_varlen_backward)
    makers: dict[str, Callable[[Tensor, PackedRows], Calls]] = {
        "CPU's own kernel": lambda query, rows: PaddedCalls(CpuFlash(), rows, CPU),
        "plain products": lambda query, rows: PaddedCalls(Plain(), rows, CPU),
        "varlen": lambda query, rows: VarlenCalls(rows, CPU),
    }
    made = makers[request.param]
    monkeypatch.setattr(packed, "make_calls", made)
    return made


@pytest.mark.usefixtures("make_calls")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_split_is_exact_forward_and_backward(layout: str, dtype: torch.dtype) -> None:
    """A prompt's gradient is the sum over all completions that attend to it."""
    rows = LAYOUTS[layout]
    inputs, grad = draw_inputs(rows, dtype)
    bound = 1e-12 if dtype == torch.float64 else 2e-5
    expected = define(*inputs, rows)
    wanted = torch.autograd.grad(expected, inputs, grad)
    output = PackedAttention(rows)(*inputs, SCALE)
    real = rows.ids() >= 0
    torch.testing.assert_close(output[real], expected[real], atol=bound, rtol=bound)
    gradients = torch.autograd.grad(output, inputs, grad)
    for gradient, want in zip(gradients, wanted, strict=True):
        at = real[:, None].expand(want.shape[:-1])
        torch.testing.assert_close(gradient[at], want[at], atol=bound, rtol=bound)


@pytest.mark.usefixtures("make_calls")
def test_padding_has_finite_values_and_no_gradient() -> None:
    rows = LAYOUTS["ragged groups, prompts of unequal length"]
    inputs, grad = draw_inputs(rows, torch.float32)
    output = PackedAttention(rows)(*inputs, SCALE)
    assert output.isfinite().all()
    padding = rows.ids() < 0
    assert padding.any()
    for gradient in torch.autograd.grad(output, inputs, grad):
        assert not gradient.transpose(1, 2)[padding].any()


def test_the_prompts_gradient_grows_with_its_completions() -> None:
    """Ten times the same completion: its own gradient stays, the prompt's from completions is ten times as large."""
    one, ten = packed_rows((6, 4)), packed_rows((6, *[4] * 10))
    (query, key, value), grad = draw_inputs(one, torch.float64)

    def repeat(tensor: Tensor, axis: int) -> Tensor:
        prompt, completion = torch.split(tensor.detach(), [6, 4], axis)
        return torch.cat([prompt, *[completion] * 10], axis).requires_grad_()

    grad[:, :6] = 0  # of the prompt's own outputs
    many = repeat(query, 2), repeat(key, 2), repeat(value, 2)
    one_output = PackedAttention(one)(query, key, value, SCALE)
    ten_output = PackedAttention(ten)(*many, SCALE)
    small = torch.autograd.grad(one_output, (key, value), grad)
    large = torch.autograd.grad(ten_output, many[1:], repeat(grad, 1).detach())
    for few, more in zip(small, large, strict=True):
        torch.testing.assert_close(more[:, :, :6], 10 * few[:, :, :6], atol=1e-12, rtol=0)
        torch.testing.assert_close(more[:, :, 6:10], few[:, :, 6:], atol=1e-12, rtol=0)


def test_a_second_derivative_is_refused() -> None:
    rows = packed_rows((3, 2))
    inputs, grad = draw_inputs(rows, torch.float64)
    output = PackedAttention(rows)(*inputs, SCALE)
    first = torch.autograd.grad(output, inputs, grad.requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first[0].sum().backward()  # type: ignore[no-untyped-call]


def test_the_calls_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PackedRows] = []

    def count(query: Tensor, rows: PackedRows) -> Calls:
        made.append(rows)
        return choice.make_calls(query, rows)

    monkeypatch.setattr(packed, "make_calls", count)
    rows = packed_rows((3, 2))
    attention = PackedAttention(rows)
    inputs, _ = draw_inputs(rows, torch.float32)
    for _ in range(3):
        attention(*inputs, SCALE)
    assert made == [rows]


def test_padding_of_a_segment_is_bounded() -> None:
    lengths = [1000, 990, 800, 799, 500, 33, 32, 30, 20, 1]
    groups = group_spans([Span(start=0, end=length) for length in lengths])
    assert [[span.length for span in group] for group in groups] == [
        [1000, 990, 800],
        [799],
        [500],
        [33, 32, 30, 20, 1],
    ]
    for group in groups:
        longest = group[0].length
        for span in group:
            assert longest <= max(span.length / padded.SHARE, span.length + padded.SPARE)


@pytest.mark.parametrize(
    ("options", "dropout", "message"),
    [
        ({"softcap": 30.0}, 0.0, "softcap"),
        ({"s_aux": torch.zeros(4)}, 0.0, "s_aux"),
        ({"position_bias": torch.zeros(4)}, 0.0, "position_bias"),
        ({}, 0.1, "dropout 0.1; set attention_dropout to 0"),
        ({"sliding_window": 99}, 0.0, "a window of 99 tokens, and a row has 100"),
    ],
    ids=["softcap", "sinks", "bias", "dropout", "window"],
)
def test_what_the_kernels_do_not_compute_is_refused(
    options: dict[str, Any], dropout: float, message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^policy.model: its attention has .*{message}"):
        refuse_unsupported(options, dropout, 100)


def test_a_window_is_refused_only_where_a_row_is_longer() -> None:
    options = {"softcap": None, "sliding_window": 100, "position_ids": None}
    refused = []
    for longest in (99, 100, 101):
        try:
            refuse_unsupported(options, 0.0, longest)
        except ConfigError:
            refused.append(longest)
    assert refused == [101]


def test_the_varlen_operators_take_these_arguments_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fake tensors: no GPU runs."""

    def fake_copy(tensor: Tensor, device: torch.device) -> Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=device)

    monkeypatch.setattr(varlen, "to_device", fake_copy)
    with FakeTensorMode():
        device = torch.device("cuda")
        query = torch.empty(9, HEADS, WIDTH, dtype=torch.bfloat16, device=device)
        key = torch.empty(7, KEY_HEADS, WIDTH, dtype=torch.bfloat16, device=device)
        spans = Sequences([4, 5], device), Sequences([6, 1], device)
        output, lse = varlen._forward(query, key, key, *spans, causal=False, scale=SCALE)
        assert (output.shape, output.dtype) == (query.shape, query.dtype)
        assert (lse.shape, lse.dtype) == ((HEADS, 9), torch.float32)
        gradients = varlen._backward(
            output, query, key, key, output, lse, *spans, causal=False, scale=SCALE
        )
        assert [g.shape for g in gradients] == [query.shape, key.shape, key.shape]
