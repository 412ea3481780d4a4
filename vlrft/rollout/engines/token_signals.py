"""Numbers of the distribution that a token was sampled from, for estimators that give credit by token.

They are of the whole distribution: after temperature and the ban, before `top_p` and `top_k`, as the trainer's log-probs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vlrft.policy.linear_logprobs import scale_and_ban

SIGNALS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "entropy": lambda logprobs, allowed: -_over(logprobs.exp() * logprobs, allowed),
    "certainty": lambda logprobs, allowed: -_over(logprobs, allowed) / allowed.sum(),
    "collision": lambda logprobs, _: (2 * logprobs).logsumexp(1),
    "mean_logprob": lambda logprobs, allowed: _over(logprobs, allowed) / allowed.sum(),
}
"""Name -> the function of log-probs [N V] and allowed tokens [V]: the entropy −Σ p log p; the certainty log Σ e^z − mean z;
the log of the chance that two samples agree, log Σ p²; the mean log-prob. Each over the allowed tokens."""


def token_signals(
    logits: Float[Tensor, "N V"],
    banned: Bool[Tensor, " V"],
    names: Sequence[str],
    temperature: float,
) -> Float[Tensor, "N S"]:
    """The signals of each row, in the order of their names. `temperature` 0 counts as 1, as for log-probs."""
    logprobs = scale_and_ban(logits, banned, temperature or 1.0).log_softmax(1)
    return torch.stack([SIGNALS[name](logprobs, ~banned) for name in names], 1)


def _over(values: Float[Tensor, "N V"], allowed: Bool[Tensor, " V"]) -> Float[Tensor, " N"]:
    """The sum over the allowed tokens."""
    return values.masked_fill(~allowed, 0.0).sum(1)
