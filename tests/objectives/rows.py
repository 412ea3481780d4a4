"""Steps for tests: rows given by hand for an objective alone, a case for a whole algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.objectives.reference import Case
from vlrft.algorithms import PolicyLoss, policy_loss
from vlrft.objectives import LossBatch, Objective, Reduction, make_loss_batch, reduce

Rows = Sequence[Sequence[float]]


def padded(rows: Rows, width: int | None = None, fill: float = 0.0) -> Tensor:
    """Ragged rows as float64 [B T]."""
    width = max(map(len, rows), default=0) if width is None else width
    full = [[*row, *[fill] * (width - len(row))] for row in rows]
    return torch.tensor(full, dtype=torch.float64).reshape(len(rows), width)


def batch_of(
    old: Rows, advantages: Sequence[float | Sequence[float]], rollout: Sequence[int] | None = None
) -> LossBatch:
    """A batch of rows of one group, with an advantage for each row or for each token."""
    values = padded(old)
    lengths = torch.tensor([len(row) for row in old])
    mask = torch.arange(values.shape[1])[None] < lengths[:, None]
    by_token = [
        [a] * len(row) if isinstance(a, int | float) else a
        for a, row in zip(advantages, old, strict=True)
    ]
    return make_loss_batch(
        mask=mask,
        advantages=padded(by_token, values.shape[1]),
        group=torch.zeros(len(old), dtype=torch.long),
        rollout=torch.arange(len(old)) if rollout is None else torch.tensor(rollout),
        valid=(True,),
        max_tokens=8,
        old_logprobs=values,
    )


def gradient_of(
    objective: Objective, logprobs: Rows, batch: LossBatch, reduction: Reduction = "sequence"
) -> Tensor:
    """∂ loss / ∂ log-probs [B T]."""
    point = padded(logprobs).requires_grad_()
    (result,) = torch.autograd.grad(reduce(objective(point, batch), batch, reduction), point)
    return result


def differences(loss: Callable[[Rows], float], logprobs: Rows, step: float = 1e-6) -> Tensor:
    """Central differences of a loss over ragged rows, padded with 0."""
    out = [[0.0] * len(row) for row in logprobs]
    for b, row in enumerate(logprobs):
        for t in range(len(row)):
            moved = [[list(r) for r in logprobs] for _ in range(2)]
            moved[0][b][t] += step
            moved[1][b][t] -= step
            out[b][t] = (loss(moved[0]) - loss(moved[1])) / (2 * step)
    return padded(out)


def step(name: str, case: Case, *, pad: int = 0, **settings: Any) -> tuple[PolicyLoss, Tensor]:
    """The step's loss through the one-call core, and its gradient [B T]."""
    width = max(map(len, case.logprobs)) + pad
    now = padded(case.logprobs, width).requires_grad_()
    lengths = torch.tensor([len(row) for row in case.logprobs])
    result = policy_loss(
        name,
        logprobs=now,
        rewards=case.rewards,
        group=case.group,
        mask=torch.arange(width)[None] < lengths[:, None],
        old_logprobs=padded(case.old, width),
        ref_logprobs=padded(case.ref, width),
        **settings,
    )
    return result, torch.autograd.grad(result.loss, now)[0]
