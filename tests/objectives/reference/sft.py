from __future__ import annotations

from tests.objectives.reference import Case


def sft(case: Case) -> float:
    tokens = sum(map(len, case.logprobs))
    return -sum(map(sum, case.logprobs)) / tokens if tokens else 0.0


REFERENCES = {"sft": sft, "sft_observations": sft}
