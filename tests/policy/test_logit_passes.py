"""Passes over the logits: how many there are, and that those for a compiler compute the same."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vlrft.policy import linear_logprobs as module
from vlrft.policy.linear_logprobs import linear_logprobs, logprobs_of_logits
from vlrft.policy.logit_passes import Fused, InPlace
from vlrft.rollout.engines.sampling import sample_tokens

ROWS, VOCAB = 23, 50
FEW = {
    "gather",
    "scatter_add_",
    "new_full",
    "empty_like",
}  # they touch one column of a row, or none


class CountPasses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators that read or write a tensor of [rows, vocabulary]."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.passes: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.__name__.split(".")[0]
        tensors = [t for t in (*args, result) if isinstance(t, Tensor)]
        whole = any(t.numel() == ROWS * VOCAB for t in tensors)
        if whole and not function.is_view and name not in FEW:
            self.passes[name] += 1
        return result


def problem(dtype: torch.dtype = torch.float32) -> tuple[nn.Linear, Tensor, Tensor, Tensor]:
    """Head, states, targets and banned tokens; the last target is banned."""
    random = torch.Generator().manual_seed(0)
    head = nn.Linear(8, VOCAB, bias=False, dtype=dtype)
    head.weight.data.normal_(generator=random)
    states = torch.randn(ROWS, 8, generator=random).to(dtype).requires_grad_()
    targets = torch.randint(0, 40, (ROWS,), generator=random)
    targets[-1] = 45
    return head, states, targets, torch.arange(VOCAB) >= 40


@pytest.mark.parametrize(
    ("dtype", "forward", "backward"), [(torch.float32, 5, 4), (torch.bfloat16, 6, 6)]
)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_head_takes_few_passes(
    dtype: torch.dtype, forward: int, backward: int, temperature: float
) -> None:
    """Forward: the product, log-softmax, exp, entropy terms, sum. Backward: the product, less log Z, exp, times the outer
    gradient, and the two products with it, which are not counted. Half precision is cast, and cast back."""
    head, states, targets, banned = problem(dtype)
    with CountPasses() as first:
        logprobs, _ = linear_logprobs(head, states, targets, banned, temperature)
    finite = logprobs[:-1].sum()
    with CountPasses() as second:
        torch.autograd.grad(finite, [states, head.weight])
    assert first.passes.total() == forward, first.passes
    products = second.passes["mm"] + second.passes["addmm_"]
    assert second.passes.total() - products == backward, second.passes


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_sampler_scales_and_bans_in_one_pass(temperature: float) -> None:
    logits = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(0)).bfloat16()
    banned = torch.arange(VOCAB) >= 40
    with CountPasses() as count:
        sample_tokens(logits, torch.rand(ROWS), banned, temperature=temperature)
    assert set(count.passes) <= {"add", "_log_softmax", "exp", "cumsum", "searchsorted", "slice"}
    assert count.passes["add"] == 1


def fail(function: Any, **options: Any) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        raise RuntimeError("no compiler\nand much more")

    return run


def as_it_is(function: Any, **options: Any) -> Any:
    return function


@pytest.fixture(params=["in place", "fused"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    made = InPlace() if request.param == "in place" else Fused(as_it_is)
    monkeypatch.setattr(module, "choose_passes", lambda device: made)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.usefixtures("passes")
def test_values_and_gradients_are_those_of_autograd(dtype: torch.dtype, temperature: float) -> None:
    """Of the logits that the head makes in this dtype, in float64 from there."""
    head, states, targets, banned = problem(dtype)
    bound = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 2e-6}[dtype]
    logprobs, entropy = linear_logprobs(head, states, targets, banned, temperature)
    logits = head(states)
    expected, plain = logprobs_of_logits(logits.double(), targets, banned, temperature)
    assert logprobs[-1] == -torch.inf == expected[-1]
    torch.testing.assert_close(logprobs[:-1].double(), expected[:-1], rtol=0, atol=4 * bound)
    torch.testing.assert_close(entropy.double(), plain, rtol=0, atol=4 * bound)
    weights = torch.randn(ROWS - 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    custom = torch.autograd.grad((logprobs[:-1] * weights).sum(), [states, head.weight])
    automatic = torch.autograd.grad((expected[:-1] * weights).sum(), [states, head.weight])
    for one, other in zip(custom, automatic, strict=True):
        gap = (one - other).double().norm() / other.double().norm()
        assert gap <= (8e-3 if dtype == torch.bfloat16 else bound)
    assert bool((custom[1][40:] == 0).all())  # banned tokens


@pytest.mark.usefixtures("passes")
def test_a_banned_target_pulls_at_the_other_tokens_only() -> None:
    head, states, targets, banned = problem(torch.float64)
    logprobs, _ = linear_logprobs(head, states, targets, banned, 1.0)
    (gradient,) = torch.autograd.grad(logprobs[-1], head.weight)
    p = (head(states[-1]).masked_fill(banned, -torch.inf)).softmax(0)
    torch.testing.assert_close(gradient, -p[:, None] * states[-1], rtol=0, atol=1e-13)


def test_a_failing_compiler_is_reported_once_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head, states, targets, banned = problem()
    expected = linear_logprobs(head, states, targets, banned, 0.7)
    compiled = Fused(fail)
    monkeypatch.setattr(module, "choose_passes", lambda device: compiled)
    with pytest.warns(RuntimeWarning, match=r"torch.compile failed .*: no compiler$"):
        first = linear_logprobs(head, states, targets, banned, 0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = linear_logprobs(head, states, targets, banned, 0.7)
        torch.autograd.grad(second[0][:-1].sum(), states)
    assert torch.equal(first[0], expected[0])
    assert torch.equal(second[1], expected[1])


def test_running_out_of_memory_is_no_failure_of_the_compiler() -> None:
    def exhaust(function: Any, **options: Any) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            raise torch.cuda.OutOfMemoryError("full")

        return run

    with pytest.raises(torch.cuda.OutOfMemoryError):
        Fused(exhaust).values(torch.zeros(2, 3), torch.tensor([0, 1]), 1.0)
