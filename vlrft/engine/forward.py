"""The forward pass of a train engine."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from vlrft.engine.protocols import ForwardPass
from vlrft.policy.logprobs import TokenLogprobs, packed_logprobs
from vlrft.policy.packing import PackItem


def token_logprobs(
    engine: ForwardPass,
    items: Sequence[PackItem],
    mask: Tensor,
    temperature: float,
    entropy_gradient: bool = False,
    fillers: Sequence[PackItem] = (),
) -> TokenLogprobs:
    """Log-probs and entropies of the items' tokens under the engine's policy; see `packed_logprobs`."""
    return packed_logprobs(
        engine.policy,
        items,
        mask=mask,
        temperature=temperature,
        entropy_gradient=entropy_gradient,
        fillers=fillers,
        scorer=engine.scorer,
    )
