"""The gradient of a step on a real small model: whatever the micro-batches, and whatever is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.fakes.policies import CORPUS, Family, group_of, tiny_config
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm, policy_loss
from vlrft.config import UpdateConfig
from vlrft.engine import TrainEngine, build_engine
from vlrft.objectives import LossBatch, Needs, Terms
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import replicated_logprobs
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.trainer.batch import Batch, make_batch, make_batches
from vlrft.trainer.update import update

LARGE = 100_000
TOLERANCE = 1e-6  # transformers computes norms and rotary angles in float32 even in a float64 model


class Recorder:
    """An engine that keeps the gradient of each step instead of taking it."""

    def __init__(self, engine: TrainEngine) -> None:
        self.engine = engine
        self.ranks = engine.ranks
        self.policy = engine.policy
        self.scorer = engine.scorer
        self.backward = engine.backward
        self.discard = engine.discard
        self.state = engine.state
        self.load_state = engine.load_state
        self.unsharded = engine.unsharded
        self.unsharded_on_first_rank = engine.unsharded_on_first_rank
        self.ready_to_sample = engine.ready_to_sample
        self.close = engine.close
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
    recorder = Recorder(build_engine(UpdateConfig(lr=1.0), own, 1))
    greedy = [0.25] * len(groups) if algorithm.estimator.greedy else None
    advantages = estimate_rows(groups, algorithm.estimator, max_tokens=8, greedy=greedy)
    batch = make_batch(groups, advantages, algorithm, temperature=0.9, max_tokens=8)
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
        groups,
        estimate_rows(groups, algorithm.estimator),
        everything,
        temperature=0.9,
        max_tokens=8,
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
        estimate_rows(groups, algorithm.estimator),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        updates=2,
    )
    engine = build_engine(UpdateConfig(lr=1e-2, updates_per_batch=2), own, 1)
    figures, skipped = update(engine, batches, algorithm, LARGE, own.reference())
    assert not skipped
    assert figures["ratio/max"] > 1.001
    assert figures["kl/old"] > 0


def test_a_step_with_nothing_to_learn_is_no_error() -> None:
    own, algorithm = policy("qwen2"), ALGORITHMS["gpg"]
    flat = [g for g in played(own) if len(set(g.rewards)) == 1]
    batch = make_batch(
        flat, estimate_rows(flat, algorithm.estimator), algorithm, temperature=1.0, max_tokens=8
    )
    figures, skipped = update(build_engine(UpdateConfig(), own, 1), [batch], algorithm, LARGE)
    assert (figures["loss"], figures["grad_norm"], skipped) == (0.0, 0.0, [])


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


def test_what_rows_must_know_of_their_group_does_not_depend_on_micro_batches() -> None:
    own = policy("qwen2")
    algorithm = replace(ALGORITHMS["grpo"], objective=_Coupled())
    groups = played(own)
    whole = step_gradient(own, groups, algorithm, LARGE)
    for budget in (1, 40):
        assert_equal(step_gradient(own, groups, algorithm, budget), whole)


def test_replayed_rollouts_keep_the_log_probs_they_were_sampled_with() -> None:
    own = policy("qwen2")
    (group, *_) = played(own)
    pieces = [r.rows[0].pieces[0] for r in group.rollouts]
    stored = [replace(p, logprobs=(-3.0,) * len(p.ids)) for p in pieces]
    rollouts = [
        replace(r, rows=(replace(r.rows[0], pieces=(p,)),))
        for r, p in zip(group.rollouts, stored, strict=True)
    ]
    rollouts[0] = replace(rollouts[0], origin="replay")
    mixed = replace(group, rollouts=tuple(rollouts))
    seen: list[Tensor] = []

    class Watched(_Coupled):
        def __init__(self, needs: Needs) -> None:
            self.needs = needs

        def __call__(self, logprobs: Tensor, batch: LossBatch) -> Terms:
            assert batch.old_logprobs is not None
            seen.append(batch.old_logprobs[batch.mask] == -3.0)
            return Terms(values=-logprobs)

    by_kind = (Needs(), Needs(replay_old="recomputed"))
    for kind in by_kind:
        needs = replace(kind, old_logprobs=True, zero_signal_groups=True)
        algorithm = replace(ALGORITHMS["grpo"], objective=Watched(needs))
        step_gradient(own, [mixed], algorithm, LARGE)
    replayed = len(stored[0].ids)
    assert seen[0].tolist() == [True] * replayed + [False] * (len(seen[0]) - replayed)
    assert not seen[1].any()


def test_rows_without_an_advantage_are_not_run() -> None:
    own = policy("qwen2")
    group = group_of(own.chat, "red?", [1.0, 0.0, 0.5], ["red", "blue", "green"])
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
    assert kept == {"gpg": [0, 1], "grpo": [0, 1, 2]}  # grpo's KL term speaks of every row


def test_an_entropy_bonus_reaches_the_weights() -> None:
    own, groups = policy("qwen2"), played(policy("qwen2"))
    plain = replace(ALGORITHMS["grpo"], objective=ClippedRatio())
    found = [
        step_gradient(
            own,
            groups,
            replace(plain, regularize=replace(plain.regularize, entropy=e)),
            LARGE,
        )
        for e in (0.0, 0.1, 0.2)
    ]
    name = max(found[0], key=lambda n: float((found[1][n] - found[0][n]).abs().max()))
    once, twice = found[1][name] - found[0][name], found[2][name] - found[0][name]
    assert float(once.abs().max()) > 1e-8
    torch.testing.assert_close(twice, 2 * once, rtol=0, atol=1e-3 * float(once.abs().max()))
