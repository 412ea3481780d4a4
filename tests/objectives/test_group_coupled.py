"""GVPO, CW-GRPO, DPO: their identities, and that a group may be split over micro-batches."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.objectives.reference import Case, random_case
from tests.objectives.reference.group_coupled import kernel_weights
from tests.objectives.rows import batch_of as rows_of
from tests.objectives.rows import padded
from tests.objectives.test_core import run
from vlrft.algorithms import ALGORITHMS, find_algorithm, policy_loss
from vlrft.objectives import LossBatch, make_loss_batch
from vlrft.objectives.covariance import CovarianceWeighted
from vlrft.objectives.dpo import Dpo
from vlrft.objectives.gvpo import Gvpo
from vlrft.schema.errors import ObjectiveError

COUPLED = ["gvpo", "cw_grpo", "dpo"]


def tensor(case: Case, rows: list[list[float]]) -> Tensor:
    return case.padded(rows, max(map(len, case.logprobs)), 0.0)


def batch_of(case: Case, rollout: list[int] | None = None) -> tuple[Tensor, LossBatch]:
    """Log-probs and the whole step's batch; advantages are centred rewards."""
    width = max(map(len, case.logprobs))
    lengths = torch.tensor([len(row) for row in case.logprobs])
    mask = torch.arange(width)[None] < lengths[:, None]
    means = {g: mean(case.rewards[b] for b in rows) for g, rows in enumerate(case.groups())}
    advantages = torch.tensor(
        [r - means[g] for r, g in zip(case.rewards, case.group, strict=True)], dtype=torch.float64
    )
    of_rollout = list(range(len(case.rewards))) if rollout is None else rollout
    return tensor(case, case.logprobs), make_loss_batch(
        mask=mask,
        advantages=advantages[:, None] * mask,
        group=torch.tensor(case.group),
        rollout=torch.tensor(of_rollout),
        valid=(True,) * len(case.groups()),
        max_tokens=width,
        old_logprobs=tensor(case, case.old),
        ref_logprobs=tensor(case, case.ref),
    )


@pytest.mark.parametrize(
    "settings",
    [*COUPLED, *[{"name": "gvpo", "objective": o} for o in ({"reference": "initial"}, {"var": 0})]],
    ids=str,
)
@pytest.mark.parametrize("rollout", [None, [0, 0, 1, 2, 3, 3, 4]], ids=["rows", "turns"])
def test_a_group_may_be_split_over_micro_batches(settings: Any, rollout: list[int] | None) -> None:
    algorithm = find_algorithm(settings)
    logprobs, whole = batch_of(random_case(5, sizes=[4, 3]), rollout)
    leaf = logprobs.clone().requires_grad_()
    expected, _ = algorithm.loss(leaf, whole)
    (wanted,) = torch.autograd.grad(expected, leaf)
    coupled: Any = algorithm.objective
    stats = coupled.group_stats(logprobs, whole)
    with_stats = replace(whole, stats=stats)
    total, gradient = 0.0, torch.zeros_like(logprobs)
    for part in ([5, 0], [1, 4, 6], [2], [3]):
        index = torch.tensor(part)
        leaf = logprobs[index].requires_grad_()
        loss, _ = algorithm.loss(leaf, with_stats.rows(index, logprobs.shape[1]))
        (gradient[index],) = torch.autograd.grad(loss, leaf)
        total += float(loss.detach())
    assert total == pytest.approx(float(expected.detach()), abs=1e-12)
    torch.testing.assert_close(gradient, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", COUPLED)
def test_several_rows_of_a_rollout_are_summed_or_weighed(name: str) -> None:
    """A rollout in two rows has the loss of the same tokens in one (CW-GRPO's means are of a row: not there)."""
    case = random_case(9, sizes=[3, 3], longest=4)
    whole = [[*row, *row] for row in case.logprobs]
    doubled = [[*row, *row] for row in case.old], [[*row, *row] for row in case.ref]
    joined = replace(case, logprobs=whole, old=doubled[0], ref=doubled[1])
    split = Case(
        [row for row in case.logprobs for _ in range(2)],
        [r for r in case.rewards for _ in range(2)],
        [g for g in case.group for _ in range(2)],
        [row for row in case.old for _ in range(2)],
        [row for row in case.ref for _ in range(2)],
    )
    rollout = [b for b in range(6) for _ in range(2)]
    one, _ = run(name, joined)
    two, _ = run(name, split, rollout=rollout)
    assert float(two) == pytest.approx(float(one), abs=1e-12)


def gvpo_weights(case: Case, objective: Gvpo) -> tuple[Tensor, Tensor]:
    """∂L/∂s_i of the first group times its G − 1, from autograd, and the loss's gradient [B T]."""
    logprobs, batch = batch_of(case)
    leaf = logprobs.requires_grad_()
    (gradient,) = torch.autograd.grad(objective(leaf, batch).values[batch.mask].sum(), leaf)
    return gradient[:, 0] * (len(case.groups()[0]) - 1), gradient


def test_gvpo_variance_form_and_regression_and_weights_agree() -> None:
    case, beta = random_case(1, sizes=[5], longest=5), 0.3
    weights, gradient = gvpo_weights(case, Gvpo(beta=beta))
    assert float(weights.sum().abs()) < 1e-12
    leaf = tensor(case, case.logprobs).requires_grad_()
    now = leaf.sum(1)
    other, reward = tensor(case, case.old).sum(1), torch.tensor(case.rewards, dtype=torch.float64)
    implied = beta * (now - other)
    regression = 0.5 * ((implied - implied.mean() - reward + reward.mean()) ** 2).sum() / 4
    variance = (
        -beta * ((reward - reward.mean()) * now).sum()
        + 0.5 * beta**2 * ((now - now.mean()) ** 2).sum()
        - beta**2 * ((now - now.mean()) * (other - other.mean())).sum()
    ) / 4
    mask = batch_of(case)[1].mask
    for form in (regression, variance):
        (expected,) = torch.autograd.grad(form, leaf, retain_graph=True)
        torch.testing.assert_close(gradient[mask], expected[mask], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("var", "cov"), [(True, False), (False, True), (False, False)])
def test_gvpo_without_a_term_is_the_sum_of_the_others(var: bool, cov: bool) -> None:
    case, beta = random_case(2, sizes=[4], longest=5), 0.2
    _, gradient = gvpo_weights(case, Gvpo(beta=beta, var=var, cov=cov))
    leaf = tensor(case, case.logprobs).requires_grad_()
    now, other = leaf.sum(1), tensor(case, case.old).sum(1)
    reward = torch.tensor(case.rewards, dtype=torch.float64)
    loss = -beta * ((reward - reward.mean()) * now).sum()
    loss = loss + var * 0.5 * beta**2 * ((now - now.mean()) ** 2).sum()
    loss = loss - cov * beta**2 * ((now - now.mean()) * (other - other.mean())).sum()
    (expected,) = torch.autograd.grad(loss / 3, leaf)
    mask = batch_of(case)[1].mask
    torch.testing.assert_close(gradient[mask], expected[mask], atol=1e-12, rtol=0)


@pytest.mark.parametrize("sampler", ["uniform", "peaked"])
def test_gvpo_finds_the_tilted_policy_from_any_sampling_distribution(sampler: str) -> None:
    """A bandit of 5 answers: π* ∝ π' e^{R/β}."""
    beta = 0.5
    initial = torch.tensor([0.1, 0.2, 0.3, 0.25, 0.15], dtype=torch.float64).log()
    rewards = torch.tensor([0.0, 0.4, 0.1, 1.0, 0.6], dtype=torch.float64)
    weights = [1.0] * 5 if sampler == "uniform" else [8.0, 1.0, 1.0, 1.0, 4.0]
    generator = torch.Generator().manual_seed(0)
    logits = initial.clone().requires_grad_()
    optimizer = torch.optim.SGD([logits], lr=8.0)  # at π* every residual is 0: no rate need fall
    for _ in range(100):
        draws = torch.multinomial(torch.tensor(weights), 64 * 8, True, generator=generator)
        drawn = logits.log_softmax(0)[draws][:, None]
        result = policy_loss(
            "gvpo",
            logprobs=drawn,
            rewards=rewards[draws],
            group=torch.arange(64).repeat_interleave(8),
            mask=torch.ones(len(draws), 1, dtype=torch.bool),
            ref_logprobs=initial[draws][:, None],
            objective={"beta": beta, "reference": "initial"},
        )
        optimizer.zero_grad()
        result.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    best = (initial + rewards / beta).log_softmax(0)
    gap = (best.exp() * (best - logits.detach().log_softmax(0))).sum()
    assert float(gap) < 1e-6


def test_gvpo_loads_only_the_policy_that_it_is_measured_from() -> None:
    old, initial = Gvpo().needs, Gvpo(reference="initial").needs
    assert (old.old_logprobs, old.ref_logprobs) == (True, False)
    assert (initial.old_logprobs, initial.ref_logprobs) == (False, True)
    assert {old.replay_old, initial.replay_old} == {"recomputed"}


def test_gvpo_observes_how_far_it_is_from_the_rewards() -> None:
    case = random_case(3, sizes=[4])
    logprobs, batch = batch_of(case)
    result = Gvpo(beta=0.2)(logprobs, batch).observed["gvpo/residual"][:, 0].tolist()
    implied = [0.2 * (sum(n) - sum(o)) for n, o in zip(case.logprobs, case.old, strict=True)]
    gaps = [
        abs(value - mean(implied) - r + mean(case.rewards))
        for value, r in zip(implied, case.rewards, strict=True)
    ]
    assert result == pytest.approx(gaps, abs=1e-12)


def test_gvpo_needs_two_rollouts_a_group() -> None:
    with pytest.raises(ObjectiveError, match="gvpo compares"):
        run("gvpo", random_case(0, sizes=[3, 1]))


def test_cw_grpo_without_covariance_is_grpo() -> None:
    case = random_case(4, sizes=[4, 3])
    level = [[-1.5] * len(row) for row in case.logprobs]
    flat = Case(level, case.rewards, case.group, level, case.ref)
    plain: dict[str, Any] = {"objective": {"clip_low": 1e3, "clip_high": 1e3}}
    torch.testing.assert_close(
        run("cw_grpo", flat)[1], run("grpo", flat, **plain)[1], atol=1e-12, rtol=0
    )
    loss, gradient = run("cw_grpo", flat, dtype=torch.float32)
    assert bool(torch.isfinite(gradient).all())
    assert float(loss) == pytest.approx(float(run("grpo", flat, **plain)[0]), abs=1e-6)


def test_cw_grpo_compares_rollouts_not_rows_and_only_those_with_tokens() -> None:
    """Uncentred advantages that differ within a rollout of two turns; the last completion is empty."""
    rows = [[-1.0, -3.0, -0.5], [-2.0], [-0.1, -0.7], [-2.5, -1.0, -4.0], []]
    by_row, rollout = [2.0, -6.0, 1.5, 0.4, 0.0], [0, 0, 1, 2, 3]
    batch = rows_of(rows, by_row, rollout=rollout)
    rollouts = [(3 * 2.0 + 1 * -6.0) / 4, 1.5, 0.4]
    c = [
        [(x - mean(row)) * (a - mean(rollouts)) for x in row]
        for row, a in zip(rows, by_row, strict=True)
        if row
    ]
    flat = [x for row in c for x in row]
    w = [math.exp(-(x**2) / (2 * mean(y**2 for y in flat))) for x in flat]
    result = CovarianceWeighted()(padded(rows), batch).observed
    assert result["weight"][batch.mask].tolist() == pytest.approx([x / mean(w) for x in w])
    assert result["weight/below_half"][batch.mask].tolist() == [float(x < 0.5) for x in w]
    assert 0 < sum(x < 0.5 for x in w) < len(w) / 2


def cw_weights(case: Case, **settings: Any) -> tuple[Tensor, LossBatch]:
    logprobs, batch = batch_of(case)
    return CovarianceWeighted(**settings)(logprobs, batch).observed["weight"], batch


def test_cw_grpo_weights_have_mean_one_and_ignore_the_scale_of_c() -> None:
    case = random_case(6, sizes=[4, 5])
    weights, batch = cw_weights(case)
    for g in (0, 1):
        assert float(weights[batch.mask & (batch.group == g)[:, None]].mean()) == pytest.approx(1.0)
    wider = replace(case, logprobs=[[3 * v for v in row] for row in case.logprobs])
    torch.testing.assert_close(cw_weights(wider)[0][batch.mask], weights[batch.mask])


def test_cw_grpo_weights_of_float32_log_probs_are_those_of_the_same_numbers_in_float64() -> None:
    """A policy that is nearly uniform: log-probs differ in their fourth digit, and the weights depend on what differs."""
    case = random_case(7, sizes=[4, 5])
    near = replace(case, logprobs=[[-11.5 + 1e-3 * v for v in row] for row in case.logprobs])
    logprobs, batch = batch_of(near)
    narrow = logprobs.float()
    weights = [
        CovarianceWeighted()(values, batch.to(values.device, values.dtype)).observed["weight"]
        for values in (narrow, narrow.double())
    ]
    assert weights[0].dtype == torch.float32
    torch.testing.assert_close(weights[0].double(), weights[1], rtol=1e-6, atol=0)


def test_cw_grpo_all_but_drops_a_token_beyond_three_sigma() -> None:
    long = [[-1.0, -1.0 - 1e-3 * (t % 2)] * 10 for t in range(4)]
    long[0][7] = -9.0
    case = Case(long, [1.0, 0.0, 0.0, 1.0], [0] * 4, long, long)
    weights = kernel_weights(case, [0, 1, 2, 3])
    assert weights[0][7] < 0.012
    result, _ = cw_weights(case)
    tokens = sum(map(len, weights))
    assert float(result[0, 7]) == pytest.approx(
        weights[0][7] * tokens / sum(map(sum, weights)), abs=1e-12
    )


def test_cw_grpo_released_counts_padding_and_lets_the_gradient_through() -> None:
    """Against the authors' formula over one group: c of the masked rows, w · numel / Σ w, nothing detached."""
    case = random_case(8, sizes=[4], longest=6)
    logprobs, batch = batch_of(case)
    leaf = logprobs.clone().requires_grad_()
    terms = CovarianceWeighted(released=True)(leaf, batch)
    (result,) = torch.autograd.grad(terms.values[batch.mask].sum(), leaf)
    leaf = logprobs.clone().requires_grad_()
    mask, a = batch.mask.double(), torch.tensor(case.rewards, dtype=torch.float64)
    a = a - a.mean()
    c = (leaf - (leaf * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)) * a[:, None] * mask
    sigma = ((c**2).sum() / mask.sum()).sqrt()
    w = (-(c**2) / (2 * sigma**2)).exp() * mask
    w = w * mask.numel() / w.sum()
    loss = -(w * (leaf - tensor(case, case.old)).exp() * a[:, None] * mask).sum()
    (wanted,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(result[batch.mask], wanted[batch.mask], atol=1e-10, rtol=1e-9)
    assert float(terms.observed["weight"][batch.mask].mean()) == pytest.approx(
        mask.numel() / float(mask.sum())
    )


def test_cw_grpo_released_refuses_a_split_group() -> None:
    logprobs, whole = batch_of(random_case(8, sizes=[4, 2]))
    released = CovarianceWeighted(released=True)
    with_stats = replace(whole, stats=released.group_stats(logprobs, whole))
    part = torch.arange(4)
    kept = released(logprobs[part], with_stats.rows(part, logprobs.shape[1])).values
    torch.testing.assert_close(kept, released(logprobs, whole).values[part])
    with pytest.raises(ObjectiveError, match=r"cw_grpo .* update.max_tokens_per_micro_batch"):
        released(logprobs[1:], with_stats.rows(torch.arange(1, 6), logprobs.shape[1]))


def test_dpo_by_hand() -> None:
    case = Case(
        [[-1.0], [-2.0], [-3.0], [-1.0], [-1.0]],
        [0.0, 1.0, 0.5, 0.3, 0.3],
        [0, 0, 0, 1, 1],
        [[0.0]] * 5,
        [[-1.5], [-3.5], [-1.0], [-1.0], [-1.0]],
    )
    loss, gradient = run("dpo", case, objective={"beta": 2.0})
    margin = 2.0 * ((-2.0 + 3.5) - (-1.0 + 1.5))
    assert float(loss) == pytest.approx(math.log1p(math.exp(-margin)))
    push = 2.0 / (1.0 + math.exp(margin))
    assert gradient[:, 0].tolist() == pytest.approx([push, -push, 0.0, 0.0, 0.0])


def test_dpo_observes_which_pairs_are_in_the_right_order() -> None:
    rows = [[-1.0, -1.0], [-2.0], [-0.5]]
    for signs, correct in (([1.0, -1.0, 0.0], 0.0), ([-1.0, 0.0, 1.0], 1.0)):
        batch = replace(rows_of(rows, signs), ref_logprobs=padded([[-0.5, -0.5], [-2.0], [-0.5]]))
        result = Dpo()(padded(rows), batch).observed["dpo/correct"]
        assert result[batch.mask].tolist() == [correct] * 4


@pytest.mark.parametrize("name", COUPLED)
def test_wide_log_ratios_stay_finite(name: str) -> None:
    case = random_case(3, sizes=[4], spread=160.0)
    loss, gradient = run(name, case)
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(gradient).all())


def test_every_group_coupled_algorithm_needs_group_stats() -> None:
    for name, algorithm in ALGORITHMS.items():
        has = hasattr(algorithm.objective, "group_stats")
        assert algorithm.needs.group_stats == has, name
