from __future__ import annotations

from tests.objectives.reference import Case, centred, standardised, valid


def gpg(case: Case) -> float:
    """α · 1/P Σ_g 1/Σ|o| Σ_i Σ_t −log π A"""
    groups = case.groups()
    kept = [g for g in groups if valid([case.rewards[b] for b in g])]
    if not kept:
        return 0.0
    alpha = len(groups) / len(kept)
    total = 0.0
    for g in groups:
        tokens = sum(len(case.logprobs[b]) for b in g)
        inner = 0.0
        for b, a in zip(g, centred([case.rewards[b] for b in g]), strict=True):
            inner += sum(-lp * a for lp in case.logprobs[b])
        total += inner / tokens if tokens else 0.0
    return alpha * total / len(groups)


def gpg_vl_released(case: Case) -> float:
    groups = case.groups()
    kept = [g for g in groups if valid([case.rewards[b] for b in g])]
    if not kept:
        return 0.0
    total = 0.0
    for g in groups:
        for b, a in zip(g, centred([case.rewards[b] for b in g]), strict=True):
            row = case.logprobs[b]
            total += sum(-lp * a for lp in row) / len(row) if row else 0.0
    return len(groups) / len(kept) * total / len(case.rewards)


def gpg_rs_released(case: Case) -> float:
    total, tokens = 0.0, 0
    for g in case.groups():
        for b, a in zip(g, standardised([case.rewards[b] for b in g]), strict=True):
            total += sum(-lp * a for lp in case.logprobs[b])
            tokens += len(case.logprobs[b])
    return total / tokens if tokens else 0.0


REFERENCES = {"gpg": gpg, "gpg_vl_released": gpg_vl_released, "gpg_rs_released": gpg_rs_released}
