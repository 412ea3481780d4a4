"""Steps for verifiers that err: S-GRPO's weight of a group, and unbiased rewards and weights under known error rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import (
    MIN_SPREAD,
    centre,
    divide_by_group_std,
    group_mean,
    min_group_of_key,
)
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import FiniteFloat, Range

Rate = Annotated[float, Range(ge=0, lt=1)]


@strict
class NoiseAware:
    """v_i ← w_g (v_i − μ_g) / (σ_g + 1e-6),   w = (1 − 2p) √( t (1 − t) / (r̄ (1 − r̄)) ),   t = clip((r̄ − p)/(1 − 2p), 0, 1)

    r̄: the group's share of rewards above 0; p: the chance that a reward is flipped. S-GRPO; released code,
    shenpeijun0212/S-GRPO, train/train_S-GRPO.py, with p = 0.10 for 7B models and 0.15 for smaller ones. Groups with
    r̄ ≤ p or r̄ ≥ 1 − p get 0: their minority is as likely noise. p = 0 is GRPO's advantage.

    Departures: the code adds 1e-8 under both roots, which is w = 1 − 1e-7 at p = 0, and 1e-8 to σ. It also samples a prompt
    again until its group is balanced; that is not part of the step.
    """

    flip: Annotated[float, Range(ge=0, lt=0.5)] = 0.1
    """p."""
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        values, key = inputs.values, inputs.key(self.key)
        seen = group_mean((values > MIN_SPREAD).astype(np.float64), key)
        true = ((seen - self.flip) / (1 - 2 * self.flip)).clip(0.0, 1.0)
        spread = seen * (1 - seen)
        part = np.divide(true * (1 - true), spread, out=np.zeros_like(spread), where=spread > 0)
        weight = (1 - 2 * self.flip) * np.sqrt(part)
        standardised = divide_by_group_std(centre(values, key), key)
        return replace(inputs, values=weight * standardised)


@strict
class Denoise:
    """v_i ← (v_i − ρ₀) / (1 − ρ₀ − ρ₁): of rewards 0 and 1 that a verifier flips, an unbiased estimate of the true ones.

    Backward correction of "Reinforcement Learning with Verifiable yet Noisy Rewards under Imperfect Verifiers"; the form is
    re-derived, E[v | r*] = r*. Put it first. It is affine, so that a division by a standard deviation takes it away: it acts
    with `centre` alone.
    """

    false_positive: Rate = 0.0
    """ρ₀: share of wrong answers that the verifier calls right."""
    false_negative: Rate = 0.0
    """ρ₁: share of right answers that it calls wrong."""

    def __post_init__(self) -> None:
        if 1 - self.false_positive - self.false_negative <= MIN_SPREAD:
            raise ValueError(
                f"false_positive: {self.false_positive} and false_negative: {self.false_negative} must add up to less than "
                "1: beyond, the verifier says nothing"
            )

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        left = 1 - self.false_positive - self.false_negative
        return replace(inputs, values=(inputs.values - self.false_positive) / left)


@strict
class ForwardNoise:
    """v_i ← ρ₁ where v_i ≥ right, ρ₁ − 1 elsewhere: weights of the score function in the place of an advantage.

    Forward correction of the same paper, for false negatives; re-derived: E[w | r*] = (1 − ρ₀ − ρ₁)(r* − 1), which is in
    expectation the gradient of the true reward less 1. Groups of equal rewards are trained on.
    """

    false_negative: Rate = 0.0
    """ρ₁."""
    right: FiniteFloat = 1.0

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        right = inputs.values >= self.right - MIN_SPREAD
        return replace(inputs, values=np.where(right, self.false_negative, self.false_negative - 1))


STEPS = {"noise_aware": NoiseAware, "denoise": Denoise, "forward_noise": ForwardNoise}

ESTIMATORS: tuple[Estimator, ...] = ()
