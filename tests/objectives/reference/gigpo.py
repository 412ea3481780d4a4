"""GiGPO on rollouts of one turn each, none starting from the same observation as another: GRPO with a mean over tokens."""

from __future__ import annotations

import math

from tests.objectives.reference import Case, standardised


def gigpo(case: Case, dual: float = math.inf, beta: float = 0.01) -> float:
    """(1/N) Σ_it ℓ_it + β k3, ℓ = −min(ρA, clip(ρ)A), for A < 0 at most −dual · A; N the step's tokens."""
    total, tokens = 0.0, 0
    for rows in case.groups():
        advantages = standardised([case.rewards[b] for b in rows])
        for b, a in zip(rows, advantages, strict=True):
            for new, old, ref in zip(case.logprobs[b], case.old[b], case.ref[b], strict=True):
                ratio = math.exp(new - old)
                loss = -min(ratio * a, min(max(ratio, 0.8), 1.2) * a)
                if a < 0:
                    loss = min(loss, -dual * a)
                total += loss + beta * (math.exp(ref - new) - (ref - new) - 1)
                tokens += 1
    return total / tokens if tokens else 0.0


REFERENCES = {"gigpo": gigpo, "gigpo_released": lambda case: gigpo(case, dual=3.0)}
