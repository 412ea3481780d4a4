"""Each kernel's output, log-sum-exp and gradients against the definition, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from vlrft.policy.attention import choice, plain
from vlrft.policy.attention.choice import choose_kernel
from vlrft.policy.attention.cpu_flash import CpuFlash
from vlrft.policy.attention.cuda_efficient import CudaEfficient
from vlrft.policy.attention.cuda_flash import CudaFlash
from vlrft.policy.attention.join import join
from vlrft.policy.attention.kernel import Kernel
from vlrft.policy.attention.plain import Plain

SCALE = 0.3
BOUNDS = {torch.float64: 1e-13, torch.float32: 3e-6, torch.bfloat16: 0.03}
# B, H, W, Q, K, D
SIZES = [(2, 4, 2, 7, 7, 16), (1, 6, 2, 1, 40, 8), (3, 4, 4, 5, 9, 12), (2, 2, 1, 300, 300, 8)]


def define(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention as it is defined, with all scores at once."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = SCALE * query @ key.mT
    places = torch.arange(key.shape[2])
    if causal:
        scores = scores.masked_fill(places > places[: query.shape[2], None], -torch.inf)
    if lengths is not None:
        beyond = (places >= lengths[:, None])[:, None, None]
        scores = scores.masked_fill(beyond, -torch.inf)
    lse = scores.logsumexp(-1)
    return (scores.softmax(-1).nan_to_num() @ value), lse


def draw(
    sizes: tuple[int, ...], dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value."""
    batch, heads, key_heads, queries, keys, width = sizes
    random = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, queries, width), *[(batch, key_heads, keys, width)] * 2]
    query, key, value = (
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for shape in shapes
    )
    return query, key, value


@pytest.fixture(params=[CpuFlash(), Plain()], ids=lambda kernel: type(kernel).__name__)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(plain, "CHUNK_SCORES", 1000)  # several chunks
    chosen: Kernel = request.param
    return chosen


@pytest.fixture
def without_operators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As with a torch that has none of the private operators."""
    choice._choose.cache_clear()
    monkeypatch.setattr(choice, "has_operator", lambda name: False)
    yield
    choice._choose.cache_clear()


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_kernel_computes_attention_and_its_gradients(
    kernel: Kernel, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    parts = draw(sizes, dtype)
    exact = [part.double().clone().requires_grad_() for part in parts]
    causal = sizes[3] == sizes[4]
    expected, expected_lse = define(*exact, causal=causal)
    output, lse = kernel.forward(*parts, causal=causal, scale=SCALE)
    assert (output.dtype, lse.dtype) == (dtype, torch.promote_types(dtype, torch.float32))
    torch.testing.assert_close(output.double(), expected, atol=BOUNDS[dtype], rtol=BOUNDS[dtype])
    torch.testing.assert_close(lse.double(), expected_lse, atol=min(BOUNDS[dtype], 1e-4), rtol=0)
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, exact, grad)
    gradients = kernel.backward(grad.to(dtype), *parts, output, lse, causal=causal, scale=SCALE)
    for gradient, want in zip(gradients, wanted, strict=True):
        assert gradient.dtype == dtype
        assert float((gradient - want).norm() / want.norm()) < BOUNDS[dtype]


def test_plain_products_count_the_first_keys_and_a_sequence_without_keys_is_empty() -> None:
    parts = draw((4, 4, 2, 3, 9, 16), torch.float64)
    lengths = torch.tensor([9, 4, 1, 0])
    output, lse = Plain().forward(*parts, causal=False, scale=SCALE, lengths=lengths)
    expected, expected_lse = define(*parts, causal=False, lengths=lengths)
    torch.testing.assert_close(output, expected, atol=1e-13, rtol=0)
    torch.testing.assert_close(lse, expected_lse, atol=1e-13, rtol=0)
    assert lse[3].isneginf().all()
    assert not output[3].any()


def test_two_parts_joined_are_the_whole_and_so_are_their_gradients(kernel: Kernel) -> None:
    parts = draw((2, 4, 2, 5, 11, 16), torch.float64)
    query, key, value = (part.requires_grad_() for part in parts)
    expected, expected_lse = define(query, key, value, causal=False)
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, parts, grad)
    with torch.no_grad():
        halves = [(key[:, :, at], value[:, :, at]) for at in (slice(0, 4), slice(4, 11))]
        first, second = (kernel.forward(query, *half, causal=False, scale=SCALE) for half in halves)
        output, lse = join(*first, *second)
        shares = [
            kernel.backward(grad, query, *half, output, lse, causal=False, scale=SCALE)
            for half in halves
        ]
    torch.testing.assert_close(output, expected, atol=1e-13, rtol=0)
    torch.testing.assert_close(lse, expected_lse, atol=1e-13, rtol=0)
    torch.testing.assert_close(shares[0][0] + shares[1][0], wanted[0], atol=1e-13, rtol=0)
    for k in (1, 2):
        joined = torch.cat([shares[0][k], shares[1][k]], 2)
        torch.testing.assert_close(joined, wanted[k], atol=1e-13, rtol=0)


def test_an_empty_part_changes_nothing() -> None:
    output, lse = torch.randn(3, 8), torch.randn(3)
    nothing, never = torch.zeros(3, 8), torch.full((3,), -torch.inf)
    for joined in (join(output, lse, nothing, never), join(nothing, never, output, lse)):
        torch.testing.assert_close(joined, (output, lse), atol=0, rtol=0)


def test_large_scores_in_bfloat16_are_as_exact_as_small_ones(kernel: Kernel) -> None:
    """Released models have scores of some hundreds, where bfloat16 has steps of 2: they must be in float32."""
    query, key, value = draw((2, 4, 2, 6, 40, 64), torch.bfloat16)
    query, key = query + 12, key + 12
    expected, _ = define(query.double(), key.double(), value.double(), causal=False)
    output, _ = kernel.forward(query, key, value, causal=False, scale=SCALE)
    assert float((output - expected).norm() / expected.norm()) < 0.01


def test_strided_tensors_need_no_copy(kernel: Kernel) -> None:
    parts = [
        part.transpose(1, 2).contiguous().transpose(1, 2) for part in draw(SIZES[0], torch.float64)
    ]
    expected, _ = define(*parts, causal=True)
    output, _ = kernel.forward(*parts, causal=True, scale=SCALE)
    torch.testing.assert_close(output, expected, atol=1e-13, rtol=0)


def test_the_cpu_has_a_kernel_of_its_own() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert isinstance(choose_kernel(torch.empty(1, 1, 1, 8, dtype=dtype)), CpuFlash)


def test_an_operator_with_other_arguments_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(choice.has_operator(name) for name in choice.ARGUMENTS)
    assert not choice._takes(choice.CPU_FLASH, "query value key", "scale")
    assert not choice._takes(choice.CPU_FLASH, "query key", "scale")  # a value is needed
    assert not choice._takes(
        choice.CUDA_FLASH, *choice.ARGUMENTS[choice.CPU_FLASH][choice.CPU_FLASH]
    )
    assert not choice._takes("_no_such_attention", "query", "")
    forward, backward = choice.ARGUMENTS[choice.CUDA_FLASH].values()
    others = {choice.CUDA_FLASH: forward, "_flash_attention_backward": ("grad query", backward[1])}
    monkeypatch.setitem(choice.ARGUMENTS, choice.CUDA_FLASH, others)
    assert not choice.has_operator.__wrapped__(choice.CUDA_FLASH)


@pytest.mark.usefixtures("without_operators")
def test_without_the_private_operators_plain_products_are_used() -> None:
    parts = draw(SIZES[0], torch.float64)
    kernel = choose_kernel(parts[0])
    assert isinstance(kernel, Plain)
    output, lse = kernel.forward(*parts, causal=True, scale=SCALE)
    torch.testing.assert_close((output, lse), define(*parts, causal=True), atol=1e-13, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "width", "expected"),
    [
        (torch.bfloat16, 128, CudaFlash),
        (torch.bfloat16, 512, CudaEfficient),
        (torch.float32, 64, CudaEfficient),
        (torch.float32, 3, Plain),
        (torch.float64, 64, Plain),
    ],
    ids=str,
)
def test_cuda_has_a_kernel_by_dtype_and_width(
    dtype: torch.dtype, width: int, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    chosen = choice._choose.__wrapped__(torch.device("cuda"), dtype, width)
    assert type(chosen) is expected


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("kernel", "dtype"), [(CudaFlash(), torch.bfloat16), (CudaEfficient(), torch.float32)]
)
def test_cuda_kernels_take_these_arguments_and_give_these_shapes(
    kernel: Kernel, dtype: torch.dtype, causal: bool
) -> None:
    """With fake tensors: no GPU runs."""
    with FakeTensorMode():
        query = torch.empty(3, 5, 4, 64, dtype=dtype, device="cuda").transpose(1, 2)
        key = torch.empty(3, 5, 2, 64, dtype=dtype, device="cuda").transpose(1, 2)
        output, lse = kernel.forward(query, key, key, causal=causal, scale=SCALE)
        assert (output.shape, output.dtype) == (query.shape, dtype)
        assert (lse.shape, lse.dtype) == (query.shape[:-1], torch.float32)
        gradients = kernel.backward(
            output, query, key, key, output, lse, causal=causal, scale=SCALE
        )
        assert [g.shape for g in gradients] == [query.shape, key.shape, key.shape]


class BackwardArguments(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the output and the log-sum-exp that the memory-efficient kernel's backward pass is called with."""

    output: Tensor
    lse: Tensor

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten._scaled_dot_product_efficient_attention_backward.default:
            self.output, self.lse = args[5:7]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("queries", [5, 64])
def test_the_memory_efficient_backward_pass_gets_the_memory_that_it_reads(
    queries: int, key_heads: int, causal: bool
) -> None:
    """Its kernel has no stride for the queries of the output, [B Q H D] in memory, and of the log-sum-exp, [B H Q]."""
    with FakeTensorMode():
        query = torch.empty(2, queries, 4, 64, device="cuda").transpose(1, 2)
        key = torch.empty(2, queries, key_heads, 64, device="cuda").transpose(1, 2)
        lse = torch.empty(2, queries, 4, device="cuda").transpose(1, 2)  # as packed rows keep it
        with BackwardArguments() as seen:  # type: ignore[no-untyped-call]
            CudaEfficient().backward(query, query, key, key, query, lse, causal=causal, scale=SCALE)
        assert seen.output.transpose(1, 2).is_contiguous()
        assert seen.lse.is_contiguous()
