"""Objectives with an importance ratio: where they must agree, and where they must differ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.objectives.reference import Case, random_case
from tests.objectives.reference.ratio import gspo_row
from tests.objectives.rows import Rows, batch_of, differences, gradient_of, padded, step
from vlrft.objectives import LossBatch, Objective, reduce
from vlrft.objectives.clipped_ratio import ClippedRatio
from vlrft.objectives.gmpo import Gmpo
from vlrft.objectives.gspo import Gspo

EVERY: list[Objective] = [
    ClippedRatio(),
    Gspo(),
    Gspo(token=True),
    Gmpo(),
    Gmpo(clip="none"),
    Gmpo(clip="sequence"),
    Gmpo(normalise=False),
    Gmpo(clip="none", normalise=False),
    *[
        Gmpo(aggregate=kind, clip=clip)
        for kind in ("arithmetic", "harmonic", "interquartile")
        for clip in ("token", "none")
    ],
]
NO_KL: dict[str, Any] = {"regularize": {"kl": 0.0}}


def on_policy(seed: int) -> Case:
    case = random_case(seed, sizes=[4, 3, 5])
    return Case(case.logprobs, case.rewards, case.group, case.logprobs, case.ref)


@pytest.mark.parametrize("rows_a_rollout", [1, 2, 3])
def test_on_policy_the_gradients_of_grpo_gspo_and_gmpo_are_equal(rows_a_rollout: int) -> None:
    for seed in range(4):
        case = on_policy(seed)
        rollout, group, rewards = turns(case, rows_a_rollout)
        several = Case(case.logprobs, rewards, group, case.old, case.ref)
        _, expected = step("grpo", several, rollout=rollout, **NO_KL)
        assert float(expected.abs().max()) > 0.01
        for name, objective in (("gspo", {}), ("gspo", {"token": True}), ("gmpo", {})):
            _, result = step(name, several, rollout=rollout, objective=objective)
            torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)


def turns(case: Case, size: int) -> tuple[list[int], list[int], list[float]]:
    """The case's 12 rows as two groups of rollouts with `size` rows each: rollout, group and reward of each row."""
    rollout = [b // size for b in range(12)]
    return rollout, [b // 6 for b in range(12)], [case.rewards[k] for k in rollout]


def test_off_policy_the_gradients_differ() -> None:
    case = random_case(3, sizes=[4, 3], spread=0.05)
    _, grpo = step("grpo", case, **NO_KL)
    _, gmpo = step("gmpo", case)
    _, wide = step("gspo", case, objective={"clip_low": 0.5, "clip_high": 0.5})
    _, narrow = step("gspo", case)
    torch.testing.assert_close(wide, gmpo, atol=1e-12, rtol=0)  # nothing is clipped in either
    for one, other in ((grpo, gmpo), (narrow, gmpo)):
        assert float((one - other).abs().max()) > 1e-3


def at_the_edges(objective: Objective, seed: int) -> tuple[Rows, Rows, list[float]]:
    """Log-probs, old ones and advantages: rows that lie 1e-3 to either side of the objective's bounds in log space."""
    case = random_case(seed, sizes=[8], longest=5, spread=0.8)
    advantages = [1.2, -0.8, 0.3, -2.0, 0.7, -0.6, 1.1, -1.4]
    if isinstance(objective, Gmpo):
        edges = (objective.clip_high, -objective.clip_low)
    else:
        assert isinstance(objective, ClippedRatio | Gspo)
        edges = (math.log1p(objective.clip_high), math.log1p(-objective.clip_low))
    whole = isinstance(objective, Gmpo) and objective.clip == "sequence"
    gap = 1e-4 if isinstance(objective, Gspo) else 1e-3  # GSPO's own bounds are not further from 0
    near = [edge + side for edge in edges for side in (gap, -gap)]
    old = [list(row) for row in case.old]
    for b, now in enumerate(case.logprobs[:4]):
        old[b][0] = now[0] - near[b]  # one token of a row that is anywhere
    for b, now in enumerate(case.logprobs[4:], 4):  # the row; no two tokens of it are equal
        share = near[b - 4] / (len(now) if whole else 1)
        old[b] = [x - share - 1e-5 * t for t, x in enumerate(now)]
    return case.logprobs, old, advantages


@pytest.mark.parametrize("objective", EVERY, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_autograd_equals_finite_differences(objective: Objective, seed: int) -> None:
    now, old, advantages = at_the_edges(objective, seed)
    batch = batch_of(old, advantages)

    def loss(rows: Rows) -> float:
        if isinstance(objective, Gspo) and objective.token:
            return frozen_gspo_token(objective, rows, now, old, advantages)
        return float(reduce(objective(padded(rows), batch), batch, "sequence"))

    result = gradient_of(objective, now, batch)
    assert float(result.abs().max()) > 1e-3
    torch.testing.assert_close(result, differences(loss, now, 1e-7), atol=1e-7, rtol=1e-6)


def frozen_gspo_token(
    objective: Gspo, rows: Rows, point: Rows, old: Rows, advantages: list[float]
) -> float:
    """s_it = sg[s_i] · π / sg[π], with everything under sg taken at the point."""
    total = 0.0
    for row, frozen, before, a in zip(rows, point, old, advantages, strict=True):
        s = math.exp(sum(x - y for x, y in zip(frozen, before, strict=True)) / len(row))
        for x, y in zip(row, frozen, strict=True):
            ratio = s * math.exp(x) / math.exp(y)
            bounded = min(max(ratio, 1 - objective.clip_low), 1 + objective.clip_high)
            total -= min(ratio * a, bounded * a) / len(row) / len(rows)
    return total


def test_gspo_token_has_the_value_and_with_equal_advantages_the_gradient_of_gspo() -> None:
    case = random_case(5, sizes=[7], spread=0.002)
    batch = batch_of(case.old, [1.3, -0.7, 0.2, -2.0, 0.0, 0.9, -0.4])
    one, other = Gspo(), Gspo(token=True)
    now = padded(case.logprobs)
    masked = [o(now, batch).values * batch.mask for o in (one, other)]
    torch.testing.assert_close(masked[0], masked[1], atol=1e-12, rtol=0)
    gradients = [gradient_of(o, case.logprobs, batch) for o in (one, other)]
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-12, rtol=0)
    clipped = (gradients[0] == 0).all(1)
    assert 0 < int(clipped.sum()) < 7


def test_gspo_token_gives_each_token_its_own_advantage() -> None:
    now, old = [[-1.0, -2.0]], [[-1.1, -1.9]]  # s = 1
    result = gradient_of(Gspo(token=True), now, batch_of(old, [[2.0, -1.0]]))
    torch.testing.assert_close(result, torch.tensor([[-1.0, 0.5]], dtype=torch.float64))


def test_gspo_clips_the_whole_row_and_reports_it() -> None:
    now = padded([[5e-4, 4.2e-4], [2e-4, 2e-4], [-5e-4, -5e-4]])
    batch = batch_of([[0.0] * 2] * 3, [1.0, 1.0, -1.0])
    terms = Gspo()(now, batch)
    assert terms.observed["ratio/clipped_high"][:, 0].tolist() == [1, 0, 0]
    assert terms.observed["ratio/clipped_low"][:, 0].tolist() == [0, 0, 1]
    expected = [gspo_row(r.tolist(), [0.0] * 2, a) for r, a in zip(now, (1, 1, -1), strict=True)]
    assert terms.values[:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx([-1.0004, -math.exp(2e-4), 0.9997])


@pytest.mark.parametrize("objective", EVERY, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_ratios_up_to_80_stay_finite(objective: Objective, dtype: torch.dtype) -> None:
    rows = [[-80.0] * 60, [-0.01] * 60, [-80.0, -0.01] * 30, [-40.0], [-0.01]]
    old = [[-0.01] * 60, [-80.0] * 60, [-0.01, -80.0] * 30, [-0.01], [-80.0]]
    for sign in (1.0, -1.0):
        batch = batch_of(old, [sign * 1.5] * 5).to(torch.device("cpu"), dtype)
        now = padded(rows).to(dtype).requires_grad_()
        terms = objective(now, batch)
        assert float(terms.values.detach().abs().max()) <= 1.5 * math.exp(20) * (1 + 1e-6)
        (gradient,) = torch.autograd.grad(reduce(terms, batch, "sequence"), now)
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("objective", EVERY, ids=repr)
def test_degenerate_rows(objective: Objective) -> None:
    """No tokens, one token, no advantage; and a micro-batch of empty rows only."""
    batch = batch_of([[], [-1.0], [-1.0, -2.0]], [1.0, -1.0, 0.0])
    rows: Rows = [[], [-0.9], [-0.9, -2.5]]
    assert bool(torch.isfinite(objective(padded(rows), batch).values).all())
    result = gradient_of(objective, rows, batch)
    assert bool(torch.isfinite(result).all())
    assert bool((result[0] == 0).all())
    assert result[1, 0] != 0
    assert bool((result[1, 1:] == 0).all())
    assert bool((result[2] == 0).all())
    alone = gradient_of(objective, [[-0.9]], batch_of([[-1.0]], [-1.0]))
    torch.testing.assert_close(3 * result[1, :1], alone[0])
    empty = batch_of([[], []], [1.0, -1.0])
    assert float(reduce(objective(padded([[], []]), empty), empty, "sequence")) == 0.0


@pytest.mark.parametrize("name", ["gmpo", "gspo"])
def test_equal_rewards_and_groups_of_one_have_no_gradient(name: str) -> None:
    case = random_case(6, sizes=[3, 1, 3])
    ragged = Case(
        case.logprobs, [0.7] * 3 + [0.2] + [0.0, 1.0, 0.0], case.group, case.old, case.ref
    )
    _, gradient = step(name, ragged)
    assert bool((gradient[:4] == 0).all())
    assert bool((gradient[4:] != 0).any())


@pytest.mark.parametrize("objective", EVERY, ids=repr)
def test_rows_in_parts_and_more_padding_change_nothing(objective: Objective) -> None:
    case = random_case(8, sizes=[6], longest=7)
    batch = batch_of(case.old, [1.0, -1.0, 0.5, -2.0, 0.3, 1.2], rollout=[0, 0, 1, 2, 2, 2])
    whole = gradient_of(objective, case.logprobs, batch)
    for parts in ([[0, 1, 2], [3, 4, 5]], [[5], [3], [1], [0], [2], [4]]):
        for part in parts:
            width = max(len(case.logprobs[b]) for b in part)
            rows = batch.rows(torch.tensor(part), width)
            result = gradient_of(objective, [case.logprobs[b] for b in part], rows)
            torch.testing.assert_close(result, whole[part][:, :width], atol=1e-12, rtol=0)
    width = whole.shape[1]
    more = gradient_of(objective, padded(case.logprobs, width + 5).tolist(), widened(batch, 5))
    torch.testing.assert_close(more[:, :width], whole, atol=1e-12, rtol=0)
    assert bool((more[:, width:] == 0).all())


def widened(batch: LossBatch, by: int) -> LossBatch:
    assert batch.old_logprobs is not None
    mask, advantages, old = (
        torch.nn.functional.pad(x, (0, by))
        for x in (batch.mask, batch.advantages, batch.old_logprobs)
    )
    return replace(batch, mask=mask, advantages=advantages, old_logprobs=old)


def test_a_dual_clip_bounds_the_loss_of_bad_answers() -> None:
    """ρ = e² for a bad answer: the loss is −A e² without a bound, −3 A with one; a good answer's stays clipped."""
    rows: Rows = [[-1.0], [-1.0]]
    batch = batch_of([[-3.0], [-3.0]], [1.0, -1.0])
    free, loaded = (ClippedRatio(dual_clip=c)(padded(rows), batch).values for c in (None, 3.0))
    assert free[:, 0].tolist() == pytest.approx([-1.2, math.exp(2)])
    assert loaded[:, 0].tolist() == pytest.approx([-1.2, 3.0])
