"""The float32 adapters of a bfloat16 model. DeepSpeed casts them to bfloat16, and trains float32 copies of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Float32Adapters:
    """The parameters that were float32 before DeepSpeed cast them."""

    def __init__(self, trained: Iterable[nn.Parameter]) -> None:
        """`trained`: the parameters of a bfloat16 model, not cast yet; none of a float32 model."""
        self.parameters = [p for p in trained if p.dtype == torch.float32]
        self._initial = [p.detach().clone() for p in self.parameters]

    def restore_copies(self) -> None:
        """Sets DeepSpeed's float32 copies, which it made from the cast parameters, to the values before the cast. All ranks call
        it, once."""
        from deepspeed.utils import safe_set_full_fp32_param

        for parameter, data in zip(self.parameters, self._initial, strict=True):
            safe_set_full_fp32_param(parameter, data)
        self._initial = []

    def gather(self) -> list[Tensor]:
        """DeepSpeed's float32 copies, complete. All ranks call it."""
        from deepspeed.utils import safe_get_full_fp32_param

        copies: list[Any] = [safe_get_full_fp32_param(parameter) for parameter in self.parameters]
        return copies

    def fill(self, exact: Sequence[Tensor]) -> None:
        """Makes the parameters, which are complete, float32 again, with the values that `gather` returned."""
        for parameter, data in zip(self.parameters, exact, strict=True):
            parameter.data = data.view_as(parameter).to(parameter.device)

    @contextmanager
    def hold(self, exact: Sequence[Tensor]) -> Iterator[None]:
        """Within the block the parameters are as `fill` makes them; after it, as they were."""
        cast = [parameter.data for parameter in self.parameters]
        self.fill(exact)
        try:
            yield
        finally:
            for parameter, data in zip(self.parameters, cast, strict=True):
                parameter.data = data
