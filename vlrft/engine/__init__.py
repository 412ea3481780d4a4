"""What the loop asks of the thing that holds weights and optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from vlrft.config import UpdateConfig
from vlrft.policy.load import Policy
from vlrft.policy.logprobs import TokenScores
from vlrft.policy.packed import PackItem
from vlrft.ranks import ALONE, Ranks


class TrainEngine(Protocol):
    """One optimiser over one policy. Gradients are *summed* over ranks."""

    policy: Policy
    ranks: Ranks

    def logprobs(
        self,
        items: Sequence[PackItem],
        mask: Tensor,
        temperature: float,
        entropy_gradient: bool = False,
    ) -> TokenScores: ...

    def backward(self, loss: Tensor) -> None: ...

    def step(self) -> dict[str, float]:
        """One optimiser step; metrics `grad_norm` and `lr`. Raises NonFiniteError, and then nothing was changed."""
        ...

    def discard(self) -> None:
        """Forgets the gradients gathered so far."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]: ...

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, float]) -> None: ...


def build(
    config: UpdateConfig, policy: Policy, total_steps: int, ranks: Ranks = ALONE
) -> TrainEngine:
    """The engine that this installation can run: one device a rank."""
    from vlrft.engine.single import SingleEngine

    return SingleEngine(config, policy, total_steps, ranks)
