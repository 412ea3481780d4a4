"""Whether a policy is made of finite numbers: its weights, and its log-probs on a short prompt."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.policy.logprobs import packed_logprobs, without_dropout
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import filler_prompt


def nonfinite_names(named: Iterable[tuple[str, Tensor]]) -> list[str]:
    """The names of the tensors that hold a NaN or an infinity.

    One pass over the numbers, which allocates nothing of their size, and one wait for each device and dtype.
    """
    alike: dict[tuple[torch.device, torch.dtype], tuple[list[str], list[Tensor]]] = {}
    for name, tensor in named:
        if tensor.numel():
            names, extremes = alike.setdefault((tensor.device, tensor.dtype), ([], []))
            names.append(name)
            extremes += torch.aminmax(tensor.detach())
    return [
        name
        for names, extremes in alike.values()
        for name, finite in zip(
            names, torch.stack(extremes).view(-1, 2).isfinite().all(1).tolist(), strict=True
        )
        if not finite
    ]


def has_finite_logprobs(policy: Policy, ranks: Ranks = ALONE) -> bool:
    """Whether the policy gives finite log-probs, on every rank, after a short prompt with an image where it reads images.

    Finite weights do not imply this: weights of 1e9 overflow inside the model. The prompt has a few tokens, so the cost is
    that of the smallest forward pass. All ranks call it together.
    """
    unbanned = int((~policy.banned).nonzero()[0])
    with_images = policy.chat.image_processor is not None
    prompt = filler_prompt(policy.chat, with_images)
    item = PackItem(prompt=prompt, rows=((unbanned,),))
    mask = torch.ones(1, 1, dtype=torch.bool)
    with torch.no_grad(), without_dropout(policy.model):
        scores = packed_logprobs(policy, [item], mask=mask, temperature=1.0)
    return not ranks.sum_count(not bool(torch.isfinite(scores.logprobs).all()))
