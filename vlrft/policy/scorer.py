"""The forward pass of training, as one module."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vlrft.policy.backbone import Backbone
from vlrft.policy.linear_logprobs import linear_logprobs
from vlrft.policy.packing import Packed

ScorerCall = Callable[..., tuple[Tensor, Tensor]]
"""As `Scorer.forward`: log-probs, entropies."""


class Scorer(nn.Module):
    """Vision tower, packed decoder and log-probs in one `forward`, so that the hooks of sharded weights run for one module call."""

    def __init__(self, model: nn.Module, backbone: Backbone) -> None:
        super().__init__()
        self.model = model
        self.backbone = backbone

    def forward(
        self,
        packed: Packed,
        banned: Bool[Tensor, " V"],
        temperature: float,
        entropy_gradient: bool,
    ) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Log-probs and entropies of `packed.targets`."""
        inputs = self.backbone.embed(packed.ids, packed.images)
        states = self.backbone.packed_hidden_states(inputs, packed.positions, packed.rows)
        states = states.flatten(0, 1)[packed.hidden]
        head = self.backbone.head
        return linear_logprobs(head, states, packed.targets, banned, temperature, entropy_gradient)
