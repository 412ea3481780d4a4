from __future__ import annotations

import math
from statistics import mean, pstdev

from tests.objectives.reference import Case, centred, standardised, valid


def gvpo(case: Case, beta: float = 0.1) -> float:
    """1/P Σ_g 1/(G−1) Σ_i ½ [(R_i − R̄) − (r_i − μ)]², without the terms of empty completions"""
    total, groups = 0.0, case.groups()
    for g in groups:
        implied = [beta * (sum(case.logprobs[b]) - sum(case.old[b])) for b in g]
        rewards = centred([case.rewards[b] for b in g])
        for b, value, r in zip(g, implied, rewards, strict=True):
            if case.logprobs[b]:
                total += 0.5 * (value - mean(implied) - r) ** 2 / (len(g) - 1)
    return total / len(groups)


def kernel_weights(case: Case, g: list[int]) -> list[list[float]]:
    """w of each token before it is normalised."""
    full = [b for b in g if case.logprobs[b]]
    advantages = dict(zip(g, standardised([case.rewards[b] for b in g]), strict=True))
    centre = mean(advantages[b] for b in full)
    c = {
        b: [(lp - mean(case.logprobs[b])) * (advantages[b] - centre) for lp in case.logprobs[b]]
        for b in full
    }
    sigma = pstdev([v for row in c.values() for v in row], mu=0.0)
    if sigma < 1e-6:
        return [[1.0 for _ in case.logprobs[b]] for b in g]
    return [[math.exp(-(v**2) / (2 * sigma**2)) for v in c.get(b, [])] for b in g]


def cw_grpo(case: Case, beta: float = 0.04) -> float:
    """The loss with the weights of the same point."""
    return cw_grpo_at(case, case, beta)


def cw_grpo_at(case: Case, point: Case, beta: float = 0.04) -> float:
    """The loss at `case` with the weights of `point`."""
    total = 0.0
    for g in case.groups():
        weights = kernel_weights(point, g) if any(point.logprobs[b] for b in g) else [[]] * len(g)
        tokens = sum(map(len, weights))
        whole = sum(map(sum, weights))
        advantages = standardised([case.rewards[b] for b in g])
        for b, a, row in zip(g, advantages, weights, strict=True):
            row_loss = 0.0
            for t, lp in enumerate(case.logprobs[b]):
                ref = case.ref[b][t] - lp
                row_loss -= math.exp(lp - case.old[b][t]) * row[t] * tokens / whole * a
                row_loss += beta * (math.exp(ref) - ref - 1)
            total += row_loss / len(case.logprobs[b]) if case.logprobs[b] else 0.0
    return total / len(case.rewards)


def dpo(case: Case, beta: float = 0.1) -> float:
    """mean over pairs of −log σ(β [Δ log-ratio of the best − of the worst])"""
    losses: list[float] = []
    for g in case.groups():
        rewards = [case.rewards[b] for b in g]
        if not valid(rewards):
            continue
        best, worst = g[rewards.index(max(rewards))], g[rewards.index(min(rewards))]
        gain = {b: sum(case.logprobs[b]) - sum(case.ref[b]) for b in (best, worst)}
        nonempty = (
            case.logprobs[best] or case.logprobs[worst]
        )  # without a token nothing carries a loss
        losses.append(math.log1p(math.exp(-beta * (gain[best] - gain[worst]))) if nonempty else 0.0)
    return mean(losses) if losses else 0.0


FROZEN = {"cw_grpo": cw_grpo_at}
REFERENCES = {"gvpo": gvpo, "cw_grpo": cw_grpo, "dpo": dpo}
