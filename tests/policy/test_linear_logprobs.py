"""Log-probs of a linear head in chunks: values and gradients equal autograd's, and no logits are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vlrft.memory import limits
from vlrft.policy.linear_logprobs import linear_logprobs, logprobs_of_logits


def rows_through(head: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each later call multiplies by the head's weight, inside the head's module or not."""
    rows: list[int] = []
    linear: Any = nn.functional.linear

    def count_rows(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if weight.data_ptr() == head.get_parameter("weight").data_ptr():
            rows.append(len(states))
        product: Tensor = linear(states, weight, bias)
        return product

    monkeypatch.setattr(nn.functional, "linear", count_rows)
    return rows


def test_chunks_change_neither_values_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(0)
    head = nn.Linear(8, 50, bias=False, dtype=torch.float64)
    states = torch.randn(23, 8, generator=random, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 40, (23,), generator=random)
    banned = torch.arange(50) >= 40

    def run() -> tuple[Tensor, Tensor, list[Tensor]]:
        logprobs, entropy = linear_logprobs(head, states, targets, banned, 0.5)
        gradients = torch.autograd.grad((logprobs * torch.arange(23)).sum(), [states, head.weight])
        return logprobs, entropy, list(gradients)

    whole = run()
    sizes = rows_through(head, monkeypatch)
    monkeypatch.setattr(limits, "CHUNK_LOGITS", 250)
    parts = run()
    assert sizes == 2 * [5, 5, 5, 5, 3]  # once in the forward pass and again in the backward pass
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("trained", [("states",), ("weight",), ("states", "weight")])
def test_the_custom_backward_pass_equals_autograds(
    trained: tuple[str, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head without bias has a custom backward pass; frozen tensors get no gradient."""
    random = torch.Generator().manual_seed(0)
    head = nn.Linear(8, 50, bias=bias, dtype=torch.float64)
    states = torch.randn(23, 8, generator=random, dtype=torch.float64)
    targets = torch.randint(0, 40, (23,), generator=random)
    banned = torch.arange(50) >= 40
    inputs = [{"states": states, "weight": head.weight}[name] for name in trained]
    for name, tensor in (("states", states), ("weight", head.weight)):
        tensor.requires_grad_(name in trained)
    weights = torch.randn(23, generator=random, dtype=torch.float64)
    monkeypatch.setattr(limits, "CHUNK_LOGITS", 300)
    logprobs, entropy = linear_logprobs(head, states, targets, banned, 0.7)
    expected, plain = logprobs_of_logits(head(states), targets, banned, 0.7)
    torch.testing.assert_close(logprobs, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(entropy, plain, rtol=0, atol=1e-12)
    custom = torch.autograd.grad((logprobs * weights).sum(), inputs)
    automatic = torch.autograd.grad((expected * weights).sum(), inputs)
    torch.testing.assert_close(custom, automatic, rtol=0, atol=1e-12)
    assert not entropy.requires_grad


def test_no_logits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    head = nn.Linear(8, 5000, bias=False)
    states = torch.randn(64, 8, requires_grad=True)
    targets = torch.zeros(64, dtype=torch.long)
    saved: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        linear_logprobs(head, states, targets, torch.zeros(5000, dtype=torch.bool), 1.0)
    assert sum(saved) <= states.numel() + head.weight.numel() + 5000 + 2 * 64


def test_log_probs_by_hand() -> None:
    head = nn.Linear(1, 3, bias=False)
    head.weight.data = torch.tensor([[0.0], [2.0], [5.0]])
    banned = torch.tensor([False, False, True])
    logprobs, entropy = linear_logprobs(head, torch.ones(2, 1), torch.tensor([1, 2]), banned, 2.0)
    p = np.exp(1) / (1 + np.exp(1))
    assert logprobs[0].item() == pytest.approx(np.log(p), abs=1e-6)
    assert logprobs[1].item() == -np.inf
    assert entropy[0].item() == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p), abs=1e-6)


@pytest.mark.parametrize("chunk", [1, 2**20])
def test_the_entropy_has_a_gradient_on_request(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(limits, "CHUNK_LOGITS", chunk)
    torch.manual_seed(0)
    head = nn.Linear(4, 7, bias=False).double()
    states = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    banned = torch.tensor([False, True, False, False, False, True, False])
    targets = torch.tensor([0, 2, 3, 4, 6])
    _, entropy = linear_logprobs(head, states, targets, banned, 0.5, entropy_gradient=True)
    (gradient,) = torch.autograd.grad(entropy.sum(), states)
    logits = (head(states) / 0.5)[:, ~banned]
    expected = torch.distributions.Categorical(logits=logits).entropy()  # type: ignore[no-untyped-call]
    (wanted,) = torch.autograd.grad(expected.sum(), states)
    torch.testing.assert_close(entropy, expected)
    torch.testing.assert_close(gradient, wanted)
    assert not linear_logprobs(head, states, targets, banned, 0.5)[1].requires_grad
