"""Signals of sampled tokens: what they are, that the trainer agrees, and that nothing changes where none is asked for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tests.conftest import Tiny
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.token_signals import SIGNALS, token_signals
from vlrft.testing.small_policies import ask

LOGITS = [[0.5, -1.0, 2.0, 9.0], [0.0, 0.0, 0.0, 1.0], [3.0, 1.5, -2.0, 0.0]]
BANNED = [False, False, False, True]


def by_hand(row: list[float], temperature: float) -> dict[str, float]:
    """The signals of one row over its allowed tokens, from their formulas."""
    z = [v / temperature for v, ban in zip(row, BANNED, strict=True) if not ban]
    total = math.log(sum(map(math.exp, z)))
    p = [math.exp(v - total) for v in z]
    return {
        "entropy": -sum(q * math.log(q) for q in p),
        "certainty": total - sum(z) / len(z),
        "collision": math.log(sum(q * q for q in p)),
        "mean_logprob": sum(v - total for v in z) / len(z),
    }


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_signals_are_those_of_the_distribution_without_banned_tokens(temperature: float) -> None:
    logits, banned = torch.tensor(LOGITS, dtype=torch.float64), torch.tensor(BANNED)
    columns = token_signals(logits, banned, tuple(SIGNALS), temperature)
    expected = [list(by_hand(row, temperature).values()) for row in LOGITS]
    torch.testing.assert_close(
        columns, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0
    )
    assert columns[1, 1] == pytest.approx(math.log(3))  # uniform: log V above KL(U ‖ π) = 0


@pytest.mark.parametrize("stop", [(), ("e",)])
def test_the_trainer_has_the_entropy_of_the_sampler_and_no_token_changes(
    tiny: Tiny, stop: tuple[str, ...]
) -> None:
    policy = tiny("qwen2_vl")
    prompt = policy.chat.render(ask("How many?"))
    requests = [Request(id="a", prompt=prompt, seeds=(0, 1, 2))]
    sampling = Sampling(max_tokens=12, temperature=0.8, top_k=20, stop=stop)
    (plain,) = HfEngine(policy).generate(requests, sampling)
    names = ("certainty", "entropy")
    (pieces,) = HfEngine(policy).generate(requests, replace(sampling, signals=names))
    assert [replace(piece, signals={}) for piece in pieces] == list(plain)
    assert all(piece.signals == {} for piece in plain)
    for piece in pieces:
        assert [len(piece.signals[name]) for name in names] == [len(piece.ids)] * 2
        mask = torch.ones(1, len(piece.ids), dtype=torch.bool)
        items = [PackItem(prompt=prompt, rows=(piece.ids,))]
        scores = packed_logprobs(policy, items, mask=mask, temperature=0.8)
        assert scores.entropy[0].tolist() == pytest.approx(piece.signals["entropy"], abs=1e-4)
