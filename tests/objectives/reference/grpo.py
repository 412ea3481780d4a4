from __future__ import annotations

import math

from tests.objectives.reference import Case, standardised


def grpo(case: Case, clip: float = 0.2, beta: float = 0.04) -> float:
    total = 0.0
    for g in case.groups():
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True):
            row = 0.0
            for lp, old, ref in zip(case.logprobs[b], case.old[b], case.ref[b], strict=True):
                ratio = math.exp(lp - old)
                clipped = min(max(ratio, 1 - clip), 1 + clip)
                k3 = math.exp(ref - lp) - (ref - lp) - 1
                row += -min(ratio * a, clipped * a) + beta * k3
            total += row / len(case.logprobs[b]) if case.logprobs[b] else 0.0
    return total / len(case.rewards)


REFERENCES = {"grpo": grpo}
