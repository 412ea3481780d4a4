"""A policy's weights as a rollout engine reads them: one tensor at a time, each gathered from the ranks just before it is read.

for name, tensor in weights: ...    all parameters, adapters merged in
weights.base()                      those without the adapters
weights.adapters()                  the adapters alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from vlrft.policy.merging import PlainWeights

Needs = Mapping[str, tuple[nn.Parameter, ...]]
"""By the name of a tensor, the model's parameters that it is computed from."""

Gather = Callable[[Needs], Iterator[str]]
"""Iterates over the names, in any order; while a name is the current one, the parameters that it needs are complete."""


class PolicyWeights:
    """The parameters of a model by their names in transformers, detached, not copied. Each iteration reads the current ones.

    Where the weights are sharded, all ranks iterate together and to the end, and a tensor is only valid until the next one.
    """

    def __init__(self, model: Any, gather: Gather = iter) -> None:
        """`model`: a transformers model, or a peft model around one. `gather`: completes sharded parameters."""
        self.model, self.gather = model, gather

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        """All parameters; adapters are merged into a copy of one tensor at a time, when it is read."""
        return self._read(PlainWeights(self.model))

    def base(self) -> Iterator[tuple[str, Tensor]]:
        """All parameters of the model without its adapters."""
        return self._read(PlainWeights(self.model, adapters=False))

    def adapters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters of the adapters, by their names in the peft model."""
        base = {
            id(p)
            for needed in PlainWeights(self.model, adapters=False).needs.values()
            for p in needed
        }
        adapters = {n: p for n, p in self.model.named_parameters() if id(p) not in base}
        for name in self.gather({name: (parameter,) for name, parameter in adapters.items()}):
            yield name, adapters[name].detach()

    def _read(self, weights: PlainWeights) -> Iterator[tuple[str, Tensor]]:
        for name in self.gather(weights.needs):
            yield name, weights.read(name)
