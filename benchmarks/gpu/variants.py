"""Variants of computing a group's log-probs, and the check that they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vlrft.policy.backbone import attending
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy

Variant = tuple[str, str, Callable[[Policy, PackItem], Tensor]]
"""Its name, the decoder's attention, and the function that computes log-probs."""


def advantages(item: PackItem, device: torch.device) -> Tensor:
    sign = torch.arange(len(item.rows), device=device) % 2 * 2.0 - 1
    return sign[:, None].expand(-1, len(item.rows[0])) / (len(item.rows) * len(item.rows[0]))


def packed(policy: Policy, item: PackItem) -> Tensor:
    mask = torch.ones(len(item.rows), len(item.rows[0]), dtype=torch.bool)
    return packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs


def replicated(policy: Policy, item: PackItem) -> Tensor:
    """Log-probs by one forward of transformers' model over all rows of the group."""
    device, count = policy.device, len(item.rows)
    ids = torch.tensor([[*item.prompt.ids, *row] for row in item.rows], device=device)
    length = len(item.rows[0])
    logits = policy.model(
        input_ids=ids,
        mm_token_type_ids=(ids == policy.backbone.image_token_id).int(),
        image_grid_thw=torch.tensor([i.grid for i in item.prompt.images] * count, device=device),
        pixel_values=torch.cat([i.values for i in item.prompt.images] * count).to(device),
        logits_to_keep=length + 1,
        use_cache=False,
    ).logits[:, :-1]
    logits = logits.float().masked_fill(policy.banned, -torch.inf)
    picked: Tensor = logits.gather(2, ids[:, -length:, None])[..., 0]
    total: Tensor = logits.logsumexp(2)
    return picked - total


def check_equal(
    policy: Policy, item: PackItem, variants: Sequence[Variant]
) -> dict[str, tuple[float, float]]:
    """Largest gap of log-probs to the first variant, and relative gap of the gradient's norm.

    Raises SystemExit when one is beyond its bound.
    """
    weights = advantages(item, policy.device)
    results: dict[str, tuple[Tensor, float]] = {}
    for name, attention, score in variants:
        with attending(policy.backbone.decoder.config, attention):
            logprobs = score(policy, item)
            loss: Any = (logprobs * weights).sum()
            loss.backward()
        norms = [p.grad.float().norm() for p in policy.model.parameters() if p.grad is not None]
        results[name] = logprobs.detach(), float(torch.stack(norms).norm())
        policy.model.zero_grad(set_to_none=True)
    (expected, expected_norm), *_ = results.values()
    gaps = {
        n: (float((logprobs - expected).abs().max()), abs(norm / expected_norm - 1))
        for n, (logprobs, norm) in results.items()
    }
    bounds = (0.25, 0.02) if policy.dtype == torch.bfloat16 else (1e-4, 1e-4)
    wrong = {n: gap for n, gap in gaps.items() if gap[0] > bounds[0] or gap[1] > bounds[1]}
    if wrong:
        raise SystemExit(
            f"variants disagree: log-probs and gradient norms differ by {wrong}, allowed {bounds}"
        )
    return gaps
