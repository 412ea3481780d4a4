"""The attention of packed rows as calls of a kernel: each segment over itself, and completions over their prompt.

Axes: T positions of all packed rows, H query heads, W key heads, D their width.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

TokenGradients = tuple[Float[Tensor, "T H D"], Float[Tensor, "T W D"], Float[Tensor, "T W D"]]


@runtime_checkable
class Calls(Protocol):
    """The calls that one kernel needs for certain packed rows. The layout of the log-sum-exp is the kernel's own."""

    def forward(
        self,
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        scale: float,
    ) -> tuple[Float[Tensor, "T H D"], Tensor]:
        """The output, finite at padding too, and the log-sum-exp of all scores of a query."""
        ...

    def backward(
        self,
        grad: Float[Tensor, "T H D"],
        query: Float[Tensor, "T H D"],
        key: Float[Tensor, "T W D"],
        value: Float[Tensor, "T W D"],
        output: Float[Tensor, "T H D"],
        lse: Tensor,
        scale: float,
    ) -> TokenGradients:
        """The gradients of query, key and value; a prompt's sum over all completions that attend to it."""
        ...
