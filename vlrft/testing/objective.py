"""Conformance of an objective (`vlrft.objectives.Objective`)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from vlrft.objectives import (
    GroupCoupled,
    LossBatch,
    Needs,
    Objective,
    guard,
    make_loss_batch,
    reduce,
)
from vlrft.objectives.reduction import Reduction

EXACT = 1e-10  # of gradients in float64, relative and absolute


class ObjectiveConformance:
    """Inherit it, name the subclass `Test…`, and define `objective`."""

    reduction: Reduction = "token"
    """The reduction that its algorithm uses."""
    sizes: tuple[int, ...] = (4, 3, 4)
    """Rollouts of each group of the step that is tested."""

    def objective(self) -> Objective:
        raise TypeError(f"{type(self).__name__}: define objective(self) -> Objective")

    def step(self, seed: int = 0, pad: int = 0) -> tuple[Tensor, LossBatch]:
        """Log-probs [B T] and the batch of a random optimiser step in float64 with what the objective needs."""
        return random_step(self.objective().needs, self.sizes, seed=seed, pad=pad)

    def gradient(self, logprobs: Tensor, batch: LossBatch) -> tuple[Tensor, Tensor]:
        """The loss as `Algorithm.loss` calls the objective, and its gradient with respect to the log-probs [B T]."""
        leaf = logprobs.detach().clone().requires_grad_()
        clean = guard(leaf, batch.mask, "log-probs")
        loss = reduce(self.objective()(clean, batch), batch, self.reduction)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), gradient

    def test_it_is_a_frozen_dataclass_that_declares_its_needs(self) -> None:
        objective = self.objective()
        assert isinstance(objective, Objective)
        assert isinstance(objective.needs, Needs)
        assert dataclasses.is_dataclass(objective)
        parameters: Any = vars(type(objective))["__dataclass_params__"]
        assert parameters.frozen, (
            f"@dataclass(frozen=True) is missing on {type(objective).__name__}"
        )

    def test_it_gives_a_finite_term_for_every_action_token(self) -> None:
        logprobs, batch = self.step()
        terms = self.objective()(logprobs.requires_grad_(), batch)
        assert terms.values.shape == logprobs.shape
        assert bool(torch.isfinite(terms.values[batch.mask]).all())

    def test_what_it_reports_is_detached(self) -> None:
        logprobs, batch = self.step()
        terms = self.objective()(logprobs.requires_grad_(), batch)
        for name, tensor in terms.observed.items():
            assert not tensor.requires_grad, name
            assert tensor.shape == logprobs.shape, name
        assert all(math.isfinite(value) for value in terms.scalars.values())

    def test_masked_tokens_have_no_gradient_whatever_their_values(self) -> None:
        logprobs, batch = self.step(pad=3)
        loss, clean = self.gradient(logprobs, batch)
        assert bool((clean[~batch.mask] == 0).all())
        for garbage in (float("nan"), float("inf"), float("-inf"), -1e4):
            dirty_loss, dirty = self.gradient(logprobs.masked_fill(~batch.mask, garbage), batch)
            assert torch.equal(dirty, clean), f"{garbage} at a masked token changes the gradient"
            assert torch.equal(dirty_loss, loss), f"{garbage} at a masked token changes the loss"

    def test_micro_batches_add_up_to_the_step(self) -> None:
        """Groups apart; and rows apart, with `group_stats` given, where the objective is coupled within groups."""
        logprobs, batch = self.step()
        loss, gradient = self.gradient(logprobs, batch)
        objective = self.objective()
        parts = [torch.nonzero(batch.group == g)[:, 0] for g in range(len(self.sizes))]
        self._assert_sum(parts, logprobs, batch, loss, gradient)
        if isinstance(objective, GroupCoupled) and objective.needs.group_stats:
            batch = dataclasses.replace(batch, stats=objective.group_stats(logprobs, batch))
        elif objective.needs.group_stats:
            return
        self._assert_sum(
            [torch.tensor([b]) for b in range(len(logprobs))], logprobs, batch, loss, gradient
        )

    def _assert_sum(
        self, parts: list[Tensor], logprobs: Tensor, batch: LossBatch, loss: Tensor, whole: Tensor
    ) -> None:
        total, gradient = torch.zeros_like(loss), torch.zeros_like(whole)
        for rows in parts:
            part_loss, part = self.gradient(
                logprobs[rows], batch.rows(rows, int(logprobs.shape[1]))
            )
            total = total + part_loss
            gradient[rows] = part
        torch.testing.assert_close(total, loss, rtol=EXACT, atol=EXACT)
        torch.testing.assert_close(gradient, whole, rtol=EXACT, atol=EXACT)

    def test_the_order_of_the_rows_changes_nothing(self) -> None:
        logprobs, batch = self.step()
        _, gradient = self.gradient(logprobs, batch)
        order = torch.randperm(len(logprobs), generator=torch.Generator().manual_seed(1))
        _, moved = self.gradient(logprobs[order], batch.rows(order, int(logprobs.shape[1])))
        torch.testing.assert_close(moved, gradient[order], rtol=EXACT, atol=EXACT)

    def test_the_gradient_is_finite_and_not_zero(self) -> None:
        logprobs, batch = self.step()
        _, gradient = self.gradient(logprobs, batch)
        assert bool(torch.isfinite(gradient).all())
        assert bool((gradient != 0).any()), "the loss does not depend on them"

    def test_a_step_without_advantages_teaches_nothing(self) -> None:
        if self.objective().needs.zero_signal_groups:
            return
        logprobs, batch = self.step()
        flat = dataclasses.replace(batch, advantages=torch.zeros_like(batch.advantages))
        _, gradient = self.gradient(logprobs, flat)
        assert bool((gradient == 0).all())

    def test_its_arguments_are_left_as_they_were(self) -> None:
        logprobs, batch = self.step()
        before = logprobs.clone(), batch.advantages.clone(), batch.mask.clone()
        self.objective()(logprobs, batch)
        assert torch.equal(logprobs, before[0])
        assert torch.equal(batch.advantages, before[1])
        assert torch.equal(batch.mask, before[2])


def random_step(
    needs: Needs, sizes: tuple[int, ...], *, seed: int = 0, pad: int = 0
) -> tuple[Tensor, LossBatch]:
    """Log-probs [B T] and a batch of groups of these sizes, in float64; advantages are centred within each group."""
    noise = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=noise, dtype=torch.float64)

    group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    rows = len(group)
    lengths = torch.randint(2, 7, (rows,), generator=noise)
    width = int(lengths.max()) + pad
    mask = torch.arange(width)[None] < lengths[:, None]
    rewards = random(rows)
    means = torch.stack([rewards[group == g].mean() for g in range(len(sizes))])
    advantages = (rewards - means[group])[:, None] * mask
    logprobs = (-random(rows, width).abs() - 0.1) * mask

    def near() -> Tensor:
        return (logprobs + 0.05 * random(rows, width)) * mask

    batch = make_loss_batch(
        mask=mask,
        advantages=advantages,
        group=group,
        rollout=torch.arange(rows),
        valid=(True,) * len(sizes),
        max_tokens=8,
        sampled_logprobs=near(),
        old_logprobs=near() if needs.old_logprobs else None,
        ref_logprobs=near() if needs.ref_logprobs else None,
        entropy=random(rows, width).abs() * mask if needs.entropy else None,
    )
    return logprobs, batch
