"""The contract of an attention kernel.

Axes: B sequences, H query heads, W key heads (H is a multiple of W; query head h attends with key head h // (H / W)),
Q queries and K keys of a sequence, D their width.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Gradients = tuple[Float[Tensor, "B H Q D"], Float[Tensor, "B W K D"], Float[Tensor, "B W K D"]]


@runtime_checkable
class Kernel(Protocol):
    """Attention of B sequences at once, each with at least one query and one key. Scores, their softmax and the
    log-sum-exp are computed in float32 at least."""

    def forward(
        self,
        query: Float[Tensor, "B H Q D"],
        key: Float[Tensor, "B W K D"],
        value: Float[Tensor, "B W K D"],
        *,
        causal: bool,
        scale: float,
    ) -> tuple[Float[Tensor, "B H Q D"], Float[Tensor, "B H Q"]]:
        """softmax(scale · q·k) v, in the dtype of the query, and the log-sum-exp of the scores, float32 at least.

        `causal`: query i attends to keys 0 … i (Q = K).
        """
        ...

    def backward(
        self,
        grad: Float[Tensor, "B H Q D"],
        query: Float[Tensor, "B H Q D"],
        key: Float[Tensor, "B W K D"],
        value: Float[Tensor, "B W K D"],
        output: Float[Tensor, "B H Q D"],
        lse: Float[Tensor, "B H Q"],
        *,
        causal: bool,
        scale: float,
    ) -> Gradients:
        """The gradients of query, key and value. `output` and `lse` may be those of this part joined with others: the
        result is then this part's share of the gradients, exactly."""
        ...
