"""What every engine's forward pass is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from vlrft.policy.logprobs import TokenScores, packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy


@runtime_checkable
class Scores(Protocol):
    """Log-probs under the policy that an engine holds."""

    policy: Policy
    scorer: Callable[..., tuple[Tensor, Tensor]] | None = None
    """What the engine has wrapped the policy's own scorer in."""

    def logprobs(
        self,
        items: Sequence[PackItem],
        mask: Tensor,
        temperature: float,
        entropy_gradient: bool = False,
        fillers: Sequence[PackItem] = (),
    ) -> TokenScores:
        return packed_logprobs(
            self.policy,
            items,
            mask=mask,
            temperature=temperature,
            entropy_gradient=entropy_gradient,
            fillers=fillers,
            scorer=self.scorer,
        )
