"""A moving average of half-precision weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from vlrft.algorithms import find_algorithm
from vlrft.config import UpdateConfig
from vlrft.engine import build_engine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.checkpoint_files import TrainerState
from vlrft.trainer.reference import build_reference, update_reference

EMA = {"name": "grpo", "reference": {"update": "ema", "decay": 0.99}}


def copies(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.trained_weights().items()}


def test_the_average_of_bfloat16_weights_moves_by_shares_below_their_rounding() -> None:
    """A policy 2 % away: a hundredth of that is a twentieth of a step of bfloat16."""
    settings: Any = SimpleNamespace(first=0, algorithm=find_algorithm(EMA))
    policy = load_policy(tiny_config("qwen2", dtype="bfloat16"), corpus=CORPUS)
    engine = build_engine(UpdateConfig(), policy, 1)
    reference = build_reference(settings, policy, None)
    assert reference is not None
    start = copies(policy)
    for tensor in policy.trained_weights().values():
        tensor.mul_(1.02)
    target = copies(policy)
    for step in range(1, 101):
        update_reference(settings, step, policy, engine, reference)
    moved = copies(reference)
    for name, tensor in moved.items():
        distance = target[name].double() - start[name].double()
        average = start[name].double() + (1 - 0.99**100) * distance
        # Half a unit in the last place of bfloat16, and what 100 additions in float32 round.
        assert torch.allclose(tensor.double(), average, rtol=2**-8 + 1e-5, atol=0), name
    assert not any(torch.equal(moved[n], start[n]) for n in moved if target[n].ne(start[n]).any())

    stored = {f"reference/{n}": t.clone() for n, t in reference.exact_weights().items()}
    state = TrainerState(tensors=stored, values={})
    resumed = build_reference(settings, policy, state)
    assert resumed is not None
    for one in (reference, resumed):
        update_reference(settings, 101, policy, engine, one)
    pairs = zip(reference.exact_weights().values(), resumed.exact_weights().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    again = copies(resumed)
    assert all(torch.equal(tensor, again[name]) for name, tensor in copies(reference).items())
