"""Costs of a pass in counts that do not depend on the machine: FLOPs of attention, and bytes kept for the backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

aten: Any = torch.ops.aten


def _forward(query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:  # fmt: skip
    flops: int = sdpa_flop_count(query, key, value)  # type: ignore[no-untyped-call]
    return flops


def _backward(grad: Sequence[int], query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any) -> int:  # fmt: skip
    flops: int = sdpa_backward_flop_count(grad, query, key, value)  # type: ignore[no-untyped-call]
    return flops


# torch's counter knows the operators of GPUs only.
CPU_ATTENTION = {
    aten._scaled_dot_product_flash_attention_for_cpu: _forward,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _backward,
}


@dataclass
class PassCosts:
    """`attention_flops`: of fused attention operators, two for each multiply-add, with all pairs of the queries and keys
    that an operator got, masked ones included. `flops`: of these, matrix products and convolutions. `saved_bytes`: memory
    that autograd keeps from the forward passes for their backward passes, each block counted once, weights left out."""

    attention_flops: int = 0
    flops: int = 0
    saved_bytes: int = 0
    _blocks: dict[int, Tensor] = field(default_factory=dict[int, Tensor], repr=False)


@contextmanager
def count_costs(model: nn.Module) -> Iterator[PassCosts]:
    """A context that counts, forward and backward passes alike; `model`'s parameters do not count as saved."""
    costs = PassCosts()
    weights = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers()]}

    def keep(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights and place not in costs._blocks:
            costs._blocks[place] = tensor  # held, so that no other block gets its address
            costs.saved_bytes += tensor.untyped_storage().nbytes()
        return tensor

    def give_back(tensor: Tensor) -> Tensor:
        costs._blocks.clear()  # a backward pass has begun, which frees what it has used
        return tensor

    counter = FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION)
    with torch.autograd.graph.saved_tensors_hooks(keep, give_back), counter:
        yield costs
    costs._blocks.clear()
    by_operator = counter.get_flop_counts().get("Global", {})
    costs.flops = sum(by_operator.values())
    costs.attention_flops = sum(n for op, n in by_operator.items() if "attention" in str(op))
