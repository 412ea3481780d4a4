"""Steps on how certain the policy was: Intuitor, EDGE-GRPO's entropy-driven advantage, EGSW."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.grouped import EPSILON, Floats, Ints, group_mean, min_group_of_key
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.ranges import NonNegativeFloat, PositiveFloat


@strict
class SelfCertainty:
    """v_i ← mean_t KL(U ‖ π_t) + log V = mean_t [log Σ_v e^(z_tv) − mean_v z_tv], in the place of the reward.

    Intuitor, "Learning to Reason without External Rewards"; released code, sunblaze-ucb/Intuitor, verl-intuitor/dp_actor.py.
    z: the logits that were sampled from, by temperature, without banned tokens. The constant log V is left in, as in its
    open-r1 trainer: centring removes it. Put it first; no gold answer is read.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"certainty"})

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=inputs.mean_signal("certainty"))


@strict
class OverEntropy:
    """v_i ← v_i · (mean_j H̄_j) / (H̄_i + 1e-6), H̄ the mean entropy over a rollout's tokens as sampled, j over its group.

    EDGE-GRPO's entropy-driven advantage; released code, ZhangXJ199/EDGE-GRPO, grpo_aha_trainer.py, `_compute_loss`. Put it
    after `scale`. Departures: the code averages over padding too, and lets the entropy's gradient through; its mean is over the
    gathered micro-batch, which is one group in its script; the 1e-6 is ours, for answers without any entropy.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"entropy"})

    key: str = "sample"

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        entropy = inputs.mean_signal("entropy")
        mean = group_mean(entropy, inputs.key(self.key))
        return replace(inputs, values=inputs.values * mean / (entropy + EPSILON))


@strict
class EntropyWeight:
    """v_i ← w_i v_i,   w_i = e^((v_i + α H̄_i) / T) / Σ_j e^((v_j + α H̄_j) / T), j over the group.

    Entropy-guided sequence weighting by trajectory, arXiv 2503.22456; from its abstract and two summaries, without code. H̄: the
    mean entropy over a rollout's tokens as sampled. Put it after `scale`. The weights of a group add up to 1, so that the loss
    is smaller by about its size; T → ∞ is 1/n of GRPO. α and T have no default: the paper's were not seen.
    """

    needs_signals: ClassVar[frozenset[str]] = frozenset({"entropy"})

    alpha: NonNegativeFloat
    temperature: PositiveFloat
    """T."""
    key: str = "sample"

    min_group = min_group_of_key

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        key = inputs.key(self.key)
        exponents = (inputs.values + self.alpha * inputs.mean_signal("entropy")) / self.temperature
        weights = _softmax(exponents, key)
        return replace(inputs, values=inputs.values * weights)


def _softmax(exponents: Floats, key: Ints) -> Floats:
    """Softmax within each group [R]."""
    highest = np.full(int(key.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(highest, key, exponents)
    raised = np.exp(exponents - highest[key])
    weights: Floats = raised / np.bincount(key, weights=raised)[key]
    return weights


STEPS = {
    "self_certainty": SelfCertainty,
    "over_entropy": OverEntropy,
    "entropy_weight": EntropyWeight,
}

ESTIMATORS: tuple[Estimator, ...] = ()
