"""Settings of torch for a GPU. The device is a name here: that torch is called is tested, and no result on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from vlrft.config import LoraConfig
from vlrft.distributed.cuda_settings import float32_products, to_device
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.rank_sync import filler_prompt
from vlrft.testing.small_policies import CORPUS, Family, tiny_config

Precision = tuple[str, bool]


def precision() -> Precision:
    """Of matrix products, and whether convolutions use TF32."""
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.fixture(autouse=True)
def torch_default() -> Iterator[None]:
    assert precision() == ("highest", True)
    yield
    assert precision() == ("highest", True)


@pytest.mark.parametrize(
    ("tf32", "dtype", "expected"),
    [
        (None, torch.bfloat16, ("high", True)),
        (None, torch.float32, ("highest", False)),
        (None, torch.float64, ("highest", False)),
        (True, torch.float32, ("high", True)),
        (False, torch.bfloat16, ("highest", False)),
    ],
)
def test_tf32_is_for_bfloat16_policies_unless_the_config_says_otherwise(
    tf32: bool | None, dtype: torch.dtype, expected: Precision
) -> None:
    with float32_products(tf32, dtype, "cuda"):
        assert precision() == expected
    with float32_products(tf32, dtype, "cpu"):
        assert precision() == ("highest", True)


def test_the_precision_is_restored_after_an_error() -> None:
    with suppress(ZeroDivisionError), float32_products(True, torch.float32, "cuda:1"):
        assert precision() == ("high", True)
        raise ZeroDivisionError  # and `torch_default` looks


def test_a_policy_knows_the_setting_of_its_config() -> None:
    policy = load_policy(tiny_config("qwen2", tf32=True), corpus=CORPUS)
    assert policy.tf32 is True
    with policy.float32_products():  # on a CPU
        assert precision() == ("highest", True)


def test_host_tensors_reach_a_gpu_through_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def pin(tensor: Tensor) -> Tensor:
        calls.append("pinned")
        return tensor

    def move(tensor: Tensor, device: torch.device, non_blocking: bool = False) -> Tensor:
        calls.append((device.type, non_blocking))
        return tensor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", move)
    to_device(torch.zeros(2), "cuda")
    assert calls == ["pinned", ("cuda", True)]
    calls.clear()
    to_device(torch.zeros(2), torch.device("cpu"))
    assert calls == [("cpu", False)]


class Float32Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the shapes of the factors of float32 matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: list[tuple[torch.Size, ...]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.name().split("::")[1].split(".")[0]
        if name in ("mm", "bmm", "addmm", "baddbmm", "convolution"):
            factors = [a for a in args if isinstance(a, Tensor)][-2:]
            if any(a.dtype == torch.float32 for a in factors):
                self.shapes.append(tuple(a.shape for a in factors))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", ["qwen2", "qwen2_vl", "qwen2_5_vl"])
def test_float32_products_beside_bfloat16_weights_are_those_of_adapters(family: Family) -> None:
    """TF32 would also round the positions of a rotary embedding that multiplies them as matrices."""
    rank = 5
    config = tiny_config(family, dtype="bfloat16", lora=LoraConfig(rank=rank))
    policy = load_policy(config, corpus=CORPUS)
    prompt = filler_prompt(policy.chat, policy.chat.image_processor is not None)
    item = PackItem(prompt=prompt, rows=((1, 2), (2,)))
    mask = torch.tensor([[True, True], [True, False]])
    with Float32Products() as products:
        packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs.sum().backward()  # type: ignore[no-untyped-call]
    assert products.shapes
    assert all(any(rank in shape for shape in pair) for pair in products.shapes)
