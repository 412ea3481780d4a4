"""Gradients of a step on a small model: they do not depend on micro-batches or on rows that are left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm, policy_loss
from vlrft.config import LoraConfig, UpdateConfig
from vlrft.engine import TrainEngine, build_engine
from vlrft.objectives import LossBatch, Needs, Terms
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs, replicated_logprobs, without_dropout
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.testing.small_policies import CORPUS, Family, group_of, tiny_config
from vlrft.trainer.batch import Batch, make_batch, make_batches
from vlrft.trainer.update import update

LARGE = 100_000
TOLERANCE = 1e-6  # transformers computes norms and rotary angles in float32 even in a float64 model


class Recorder:
    """An engine that records the gradient of each step instead of changing the weights."""

    def __init__(self, engine: TrainEngine) -> None:
        self.engine = engine
        self.ranks = engine.ranks
        self.policy = engine.policy
        self.scorer = engine.scorer
        self.backward = engine.backward
        self.discard = engine.discard
        self.reset_moments = engine.reset_moments
        self.state = engine.state
        self.load_state = engine.load_state
        self.unsharded = engine.unsharded
        self.unsharded_on_first_rank = engine.unsharded_on_first_rank
        self.gather_in_turn = engine.gather_in_turn
        self.ready_to_sample = engine.ready_to_sample
        self.close = engine.close
        self.gradients: list[dict[str, Tensor]] = []

    def step(self) -> dict[str, float]:
        named = self.policy.model.named_parameters()
        self.gradients.append({n: p.grad.clone() for n, p in named if p.grad is not None})
        self.discard()
        return {}


def build_policy(family: Family) -> Policy:
    return load_policy(replace(tiny_config(family), dtype="float64"), corpus=CORPUS, seed=0)


def step_gradient(
    policy: Policy, groups: list[Group], algorithm: Algorithm, budget: int
) -> dict[str, Tensor]:
    recorder = Recorder(build_engine(UpdateConfig(lr=1.0), policy, 1))
    greedy = [0.25] * len(groups) if algorithm.estimator.greedy else None
    advantages = estimate_rows(groups, algorithm.estimator, max_tokens=8, greedy=greedy)
    batch = make_batch(groups, advantages, algorithm, temperature=0.9, max_tokens=8)
    _, skipped = update(recorder, [batch], algorithm, budget, policy.reference())
    assert not skipped
    return recorder.gradients[0]


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    scale = max(float(g.abs().max()) for g in one.values())
    assert scale > 1e-6
    for name in one.keys() | other.keys():
        zero = torch.zeros(1, dtype=torch.float64)
        gap = (one.get(name, zero) - other.get(name, zero)).abs().max()
        assert float(gap) <= TOLERANCE * scale, name


def example_groups(policy: Policy) -> list[Group]:
    """Ragged groups with and without reward spread."""
    return [
        group_of(policy.chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        group_of(policy.chat, "which is it, then?", [1.0, 1.0], ["x", "yes"]),
        group_of(policy.chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
    ]


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"sft"}))
def test_micro_batches_do_not_change_the_gradient(name: str) -> None:
    policy = build_policy("qwen2")
    groups = example_groups(policy)
    whole = step_gradient(policy, groups, ALGORITHMS[name], LARGE)
    for budget in (1, 40):
        assert_equal(step_gradient(policy, groups, ALGORITHMS[name], budget), whole)


@pytest.mark.parametrize("name", ["gpg", "gpg_vl_released", "gpg_rs_released"])
def test_leaving_out_groups_without_a_gradient_is_exact(name: str) -> None:
    """Compared with the unpacked forward pass over every row, through `policy_loss`."""
    policy, algorithm = build_policy("qwen2"), ALGORITHMS[name]
    groups = example_groups(policy)
    gradient = step_gradient(policy, groups, algorithm, LARGE)
    everything = replace(algorithm, objective=_Needy(algorithm))
    batch: Batch = make_batch(
        groups,
        estimate_rows(groups, algorithm.estimator),
        everything,
        temperature=0.9,
        max_tokens=8,
    )
    scores = replicated_logprobs(policy, batch.items(), mask=batch.loss.mask, temperature=0.9)
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
    named = policy.model.named_parameters()
    assert_equal({n: p.grad for n, p in named if p.grad is not None}, gradient)


class _Needy:
    """The needs of an objective for which no group is left out."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.needs = Needs(zero_signal_groups=True)
        self.call = algorithm.objective

    def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
        raise AssertionError("only its needs are read")


def _with_empty_row(values: Tensor, batch: Batch, rows: int) -> Tensor:
    """The rows at the indices of their rollouts; an empty completion has no row in the batch."""
    out = torch.zeros(rows, values.shape[1], dtype=values.dtype)
    return out.index_put((batch.loss.rollout,), values)


def test_several_updates_share_the_log_probs_from_before_the_first() -> None:
    policy, algorithm = build_policy("qwen2"), ALGORITHMS["grpo"]
    groups = [*example_groups(policy), *example_groups(policy)]
    batches = make_batches(
        groups,
        estimate_rows(groups, algorithm.estimator),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        updates=2,
    )
    engine = build_engine(UpdateConfig(lr=1e-2, updates_per_batch=2), policy, 1)
    metrics, skipped = update(engine, batches, algorithm, LARGE, policy.reference())
    assert not skipped
    assert metrics["ratio/max"] > 1.001
    assert metrics["kl/old"] > 0


def test_a_step_without_a_gradient_is_no_error() -> None:
    policy, algorithm = build_policy("qwen2"), ALGORITHMS["gpg"]
    flat = [g for g in example_groups(policy) if len(set(g.rewards)) == 1]
    batch = make_batch(
        flat, estimate_rows(flat, algorithm.estimator), algorithm, temperature=1.0, max_tokens=8
    )
    metrics, skipped = update(build_engine(UpdateConfig(), policy, 1), [batch], algorithm, LARGE)
    assert (metrics["loss"], metrics["grad_norm"], skipped) == (0.0, 0.0, [])


class _Coupled:
    """−log π · (sum of the log-probs of the whole group under the present, old and reference policies), detached."""

    needs = Needs(old_logprobs=True, ref_logprobs=True, group_stats=True, zero_signal_groups=True)

    def group_stats(self, logprobs: Tensor, batch: LossBatch) -> dict[str, Tensor]:
        assert batch.old_logprobs is not None
        assert batch.ref_logprobs is not None
        everything = logprobs + 2 * batch.old_logprobs + 3 * batch.ref_logprobs
        sums = everything.new_zeros(len(batch.denominators.valid))
        rows = (everything * batch.mask).sum(1)
        return {"sum": sums.index_add(0, batch.group, rows)[batch.group]}

    def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
        stats = batch.stats or self.group_stats(logprobs.detach(), batch)
        return Terms(values=-logprobs * stats["sum"][:, None])


def test_group_statistics_do_not_depend_on_micro_batches() -> None:
    policy = build_policy("qwen2")
    algorithm = replace(ALGORITHMS["grpo"], objective=_Coupled())
    groups = example_groups(policy)
    whole = step_gradient(policy, groups, algorithm, LARGE)
    for budget in (1, 40):
        assert_equal(step_gradient(policy, groups, algorithm, budget), whole)


def build_dropping_policy() -> Policy:
    """Half of the inputs of its adapters are dropped, which are not zero."""
    lora = LoraConfig(rank=4, dropout=0.5)
    config = replace(tiny_config("qwen2"), dtype="float64", lora=lora)
    policy = load_policy(config, corpus=CORPUS, seed=0)
    for weight in policy.trained_weights().values():
        weight.normal_(std=0.3)
    return policy


def test_old_log_probs_of_several_updates_are_without_dropout_as_those_of_sampling() -> None:
    policy, old = build_dropping_policy(), list[Tensor]()

    class Recording:
        needs = Needs(old_logprobs=True, zero_signal_groups=True)

        def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
            assert batch.old_logprobs is not None
            old.append(batch.old_logprobs[batch.mask])
            return Terms(values=-logprobs)

    algorithm = replace(ALGORITHMS["grpo"], objective=Recording())
    groups = [*example_groups(policy), *example_groups(policy)]
    advantages = estimate_rows(groups, algorithm.estimator)
    batches = make_batches(groups, advantages, algorithm, temperature=1.0, max_tokens=8, updates=2)
    engine = build_engine(UpdateConfig(lr=0.0, updates_per_batch=2), policy, 1)
    update(engine, batches, algorithm, LARGE, policy.reference())
    for batch, recorded in zip(batches, old, strict=True):
        mask = batch.loss.mask
        with torch.no_grad(), without_dropout(policy.model):
            sampled = packed_logprobs(policy, batch.items(), mask=mask, temperature=1.0)
        expected = sampled.logprobs[mask].sort().values  # micro-batches have rows in another order
        assert torch.allclose(recorded.sort().values, expected, rtol=0, atol=1e-9)


def test_group_statistics_are_of_the_log_probs_of_the_loss_also_with_dropout() -> None:
    policy, gaps = build_dropping_policy(), list[float]()

    class Comparing:
        needs = Needs(group_stats=True, zero_signal_groups=True)

        def group_stats(self, logprobs: Tensor, batch: LossBatch) -> dict[str, Tensor]:
            return {"sum": (logprobs * batch.mask).sum(1)}

        def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
            assert batch.stats is not None
            sums = (logprobs.detach() * batch.mask).sum(1)
            gaps.append(float((sums - batch.stats["sum"]).abs().max()))
            return Terms(values=-logprobs)

    algorithm = replace(ALGORITHMS["grpo"], objective=Comparing())
    step_gradient(policy, example_groups(policy), algorithm, 40)
    assert len(gaps) > 1
    assert max(gaps) < 1e-9


def test_replayed_rollouts_keep_the_log_probs_that_they_were_sampled_with() -> None:
    policy = build_policy("qwen2")
    (group, *_) = example_groups(policy)
    pieces = [r.rows[0].pieces[0] for r in group.rollouts]
    stored = [replace(p, logprobs=(-3.0,) * len(p.ids)) for p in pieces]
    rollouts = [
        replace(r, rows=(replace(r.rows[0], pieces=(p,)),))
        for r, p in zip(group.rollouts, stored, strict=True)
    ]
    rollouts[0] = replace(rollouts[0], origin="replay")
    mixed = replace(group, rollouts=tuple(rollouts))
    stored_tokens: list[Tensor] = []

    class Recording(_Coupled):
        def __init__(self, needs: Needs) -> None:
            self.needs = needs

        def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
            assert batch.old_logprobs is not None
            stored_tokens.append(batch.old_logprobs[batch.mask] == -3.0)
            return Terms(values=-logprobs)

    by_kind = (Needs(), Needs(replay_old="recomputed"))
    for kind in by_kind:
        needs = replace(kind, old_logprobs=True, zero_signal_groups=True)
        algorithm = replace(ALGORITHMS["grpo"], objective=Recording(needs))
        step_gradient(policy, [mixed], algorithm, LARGE)
    replayed = len(stored[0].ids)
    fresh = len(stored_tokens[0]) - replayed
    assert stored_tokens[0].tolist() == [True] * replayed + [False] * fresh
    assert not stored_tokens[1].any()


def test_rows_without_an_advantage_are_not_run() -> None:
    policy = build_policy("qwen2")
    group = group_of(policy.chat, "red?", [1.0, 0.0, 0.5], ["red", "blue", "green"])
    kept = {}
    for name in ("gpg", "grpo"):
        algorithm = ALGORITHMS[name]
        batch = make_batch(
            [group],
            estimate_rows([group], algorithm.estimator),
            algorithm,
            temperature=1.0,
            max_tokens=8,
        )
        kept[name] = batch.loss.rollout.tolist()
        assert batch.loss.denominators.rollouts == 3
    assert kept == {"gpg": [0, 1], "grpo": [0, 1, 2]}  # grpo's KL term is over every row


def test_an_entropy_bonus_reaches_the_weights() -> None:
    policy = build_policy("qwen2")
    groups = example_groups(policy)
    plain = replace(ALGORITHMS["grpo"], objective=ClippedRatio())
    gradients = [
        step_gradient(
            policy,
            groups,
            replace(plain, regularize=replace(plain.regularize, entropy=e)),
            LARGE,
        )
        for e in (0.0, 0.1, 0.2)
    ]
    name = max(gradients[0], key=lambda n: float((gradients[1][n] - gradients[0][n]).abs().max()))
    once, twice = (gradients[k][name] - gradients[0][name] for k in (1, 2))
    assert float(once.abs().max()) > 1e-8
    torch.testing.assert_close(twice, 2 * once, rtol=0, atol=1e-3 * float(once.abs().max()))
