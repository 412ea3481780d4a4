"""Steps for answers that are too long: DAPO's soft penalty, and no advantage for truncated answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlrft.advantages.estimator import Estimator
from vlrft.advantages.estimators.group import Centre, Scale
from vlrft.advantages.inputs import EstimatorInput
from vlrft.config import strict
from vlrft.schema.errors import AdvantageError
from vlrft.schema.ranges import NonNegativeFloat, Positive

BUFFER_SHARE = 0.2  # 4096 of 20480 tokens in the paper


@strict
class Overlong:
    """v_i ← v_i − p · clip((n_i − (L − B)) / B, 0, 1): no penalty up to L − B tokens, all of p from L tokens.

    n_i: tokens of the rollout's longest turn; L: the configured longest completion; B: the buffer; p: the penalty
    (arXiv 2503.14476, Eq. 13, where p = 1).
    """

    buffer: Positive | None = None
    """null: a fifth of the longest completion, the paper's share."""
    penalty: NonNegativeFloat = 1.0

    @property
    def min_tokens(self) -> int:
        return self.buffer or 1

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        if inputs.max_tokens <= 0:
            raise AdvantageError("overlong: needs the configured longest completion")
        buffer = self.buffer or inputs.max_tokens * BUFFER_SHARE
        if buffer > inputs.max_tokens:
            raise AdvantageError(
                f"overlong.buffer: {self.buffer}, but no answer is longer than {inputs.max_tokens} tokens"
            )
        longest = np.zeros(len(inputs.values))
        np.maximum.at(longest, inputs.rollouts, inputs.turn_tokens.astype(np.float64))
        over = np.clip((longest - (inputs.max_tokens - buffer)) / buffer, 0.0, 1.0)
        return replace(inputs, values=inputs.values - self.penalty * over)


@strict
class MuteTruncated:
    """v_i ← 0 where a turn was cut at the token limit: the reward of the complete answer is unknown. Put it after the
    baseline, which counts the truncated answer."""

    def __call__(self, inputs: EstimatorInput) -> EstimatorInput:
        return replace(inputs, values=np.where(inputs.truncated, 0.0, inputs.values))


STEPS = {"overlong": Overlong, "mute_truncated": MuteTruncated}

ESTIMATORS = (
    Estimator(
        name="dapo",
        doc="Group-standardised rewards after a penalty on the last fifth of the token limit (DAPO, arXiv 2503.14476).",
        equation="r'_i = r_i − clip((n_i − 0.8 L) / 0.2 L, 0, 1);  A_i = (r'_i − μ_g) / (σ_g + 1e-6)",
        steps=(Overlong(), Centre(), Scale()),
    ),
)
