"""The gradient of a step on a real small model: whatever the micro-batches, and whatever is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.fakes import CORPUS, Family, group_of, tiny_config
from vlrft.algorithms import ALGORITHMS, Algorithm, policy_loss
from vlrft.batch import Batch, advantages_of, make_batch, make_batches
from vlrft.config import UpdateConfig
from vlrft.engine import TrainEngine, build
from vlrft.objectives import LossBatch, Needs, Terms
from vlrft.policy.load import Policy, load_policy
from vlrft.policy.logprobs import replicated_logprobs
from vlrft.schema import Group
from vlrft.update import update

LARGE = 100_000
TOLERANCE = 1e-6  # transformers computes norms and rotary angles in float32 even in a float64 model


class Recorder:
    """An engine that keeps the gradient of each step instead of taking it."""

    rank, world_size = 0, 1

    def __init__(self, engine: TrainEngine) -> None:
        self.engine = engine
        self.policy = engine.policy
        self.logprobs = engine.logprobs
        self.backward = engine.backward
        self.discard = engine.discard
        self.state = engine.state
        self.load_state = engine.load_state
        self.gradients: list[dict[str, Tensor]] = []

    def step(self) -> dict[str, float]:
        named = self.policy.model.named_parameters()
        self.gradients.append({n: p.grad.clone() for n, p in named if p.grad is not None})
        self.discard()
        return {}


def policy(family: Family) -> Policy:
    return load_policy(replace(tiny_config(family), dtype="float64"), corpus=CORPUS, seed=0)


def step_gradient(
    own: Policy, groups: list[Group], algorithm: Algorithm, budget: int
) -> dict[str, Tensor]:
    recorder = Recorder(build(UpdateConfig(lr=1.0), own, 1))
    batch = make_batch(
        groups, advantages_of(groups, algorithm), algorithm, temperature=0.9, max_tokens=8
    )
    _, skipped = update(recorder, [batch], algorithm, budget, own.reference())
    assert not skipped
    return recorder.gradients[0]


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    scale = max(float(g.abs().max()) for g in one.values())
    assert scale > 1e-6
    for name in one.keys() | other.keys():
        zero = torch.zeros(1, dtype=torch.float64)
        gap = (one.get(name, zero) - other.get(name, zero)).abs().max()
        assert float(gap) <= TOLERANCE * scale, name


def played(own: Policy) -> list[Group]:
    """Ragged groups with and without reward spread."""
    return [
        group_of(own.chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        group_of(own.chat, "which is it, then?", [1.0, 1.0], ["x", "yes"]),
        group_of(own.chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
    ]


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"sft"}))
def test_micro_batches_do_not_change_the_gradient(name: str) -> None:
    own = policy("qwen2")
    groups = played(own)
    whole = step_gradient(own, groups, ALGORITHMS[name], LARGE)
    for budget in (1, 40):
        assert_equal(step_gradient(own, groups, ALGORITHMS[name], budget), whole)


@pytest.mark.parametrize("name", ["gpg", "gpg_vl_released", "gpg_rs_released"])
def test_leaving_out_groups_that_teach_nothing_is_exact(name: str) -> None:
    """Against the plain forward over every row, through the one-call core."""
    own, algorithm = policy("qwen2"), ALGORITHMS[name]
    groups = played(own)
    found = step_gradient(own, groups, algorithm, LARGE)
    everything = replace(algorithm, objective=_Needy(algorithm))
    batch: Batch = make_batch(
        groups, advantages_of(groups, algorithm), everything, temperature=0.9, max_tokens=8
    )
    scores = replicated_logprobs(own, batch.items(), mask=batch.loss.mask, temperature=0.9)
    rewards = [r.reward for g in groups for r in g.rollouts]
    index = [k for k, g in enumerate(groups) for _ in g.rollouts]
    whole = policy_loss(
        name,
        logprobs=_with_empty_row(scores.logprobs, batch, len(rewards)),
        rewards=rewards,
        group=index,
        mask=_with_empty_row(batch.loss.mask, batch, len(rewards)),
    )
    whole.loss.backward()  # type: ignore[no-untyped-call]
    named = own.model.named_parameters()
    assert_equal({n: p.grad for n, p in named if p.grad is not None}, found)


class _Needy:
    """The same objective, with no group left out."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.needs = Needs(zero_signal_groups=True)
        self.call = algorithm.objective

    def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
        raise AssertionError("only its needs are read")


def _with_empty_row(values: Tensor, batch: Batch, rows: int) -> Tensor:
    """The rows at their rollouts' places; empty completions have no row of their own."""
    out = torch.zeros(rows, values.shape[1], dtype=values.dtype)
    return out.index_put((batch.loss.rollout,), values)


def test_several_updates_start_from_the_log_probs_before_the_first() -> None:
    own, algorithm = policy("qwen2"), ALGORITHMS["grpo"]
    groups = [*played(own), *played(own)]
    batches = make_batches(
        groups,
        advantages_of(groups, algorithm),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        updates=2,
    )
    engine = build(UpdateConfig(lr=1e-2, updates_per_batch=2), own, 1)
    figures, skipped = update(engine, batches, algorithm, LARGE, own.reference())
    assert not skipped
    assert figures["ratio/max"] > 1.001
    assert figures["kl/old"] > 0


def test_a_step_with_nothing_to_learn_is_no_error() -> None:
    own, algorithm = policy("qwen2"), ALGORITHMS["gpg"]
    flat = [g for g in played(own) if len(set(g.rewards)) == 1]
    batch = make_batch(
        flat, advantages_of(flat, algorithm), algorithm, temperature=1.0, max_tokens=8
    )
    figures, skipped = update(build(UpdateConfig(), own, 1), [batch], algorithm, LARGE)
    assert (figures["loss"], figures["grad_norm"], skipped) == (0.0, 0.0, [])
