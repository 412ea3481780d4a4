"""Compares, during a run, the log-probs of an engine that has weights of its own with the trainer's.

An update that reached the engine in part, or not at all, leaves no other trace: the engine agrees with itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from vlrft.distributed.ranks import Ranks
from vlrft.policy.agreement import BOUNDS, HALF_MEAN_BOUND
from vlrft.rollout.engines import CheckedEngine, RolloutEngine
from vlrft.schema.errors import SelfCheckError
from vlrft.trainer.sampler_check import SamplerGap, summarise_gaps


@dataclass(kw_only=True)
class SamplerGate:
    """The gate of one run. Every rank calls it alike."""

    engine: CheckedEngine
    ranks: Ranks
    say: Callable[[str], object]
    steps: int = 0  # with rollouts of this engine, since the run was started or resumed

    @staticmethod
    def of(
        engine: RolloutEngine, ranks: Ranks, say: Callable[[str], object], *, wanted: bool
    ) -> SamplerGate | None:
        """The gate of a run; None for an engine that shares the policy's module, which pays nothing, or where it is not
        wanted."""
        if not (wanted and isinstance(engine, CheckedEngine)):
            return None
        return SamplerGate(engine=engine, ranks=ranks, say=say)

    def is_due(self) -> bool:
        """Whether this step's rollouts are compared: those of the first weights, those after the first update, and those after
        every `check_every` updates. Called once for each step with rollouts."""
        self.steps += 1
        return self.steps == 1 or (self.steps - 2) % self.engine.check_every == 0

    def require(self, gap: SamplerGap | None, dtype: torch.dtype, step: int) -> None:
        """Logs the gap of a step's rollouts. Raises SelfCheckError on every rank where it is larger than the bound."""
        summary = summarise_gaps(gap, dtype, self.ranks)
        if summary is None:
            self.steps -= 1  # the next step is compared in its place
            return
        mean, worst = summary
        bound = self.engine.max_gap or BOUNDS.get(dtype, HALF_MEAN_BOUND)
        if mean <= bound:
            self.say(
                f"step {step}: the rollout engine's log-probs differ from the trainer's by {mean:.1e} on average, by {worst.row:.1e} "
                f"in the worst row (allowed: {bound:g})"
            )
            return
        why = self.ranks.run_on_first(self.engine.explain_gap)
        raise SelfCheckError(
            f"step {step}, {worst.sample}: the rollout engine's log-probs differ from the trainer's by {mean:.2g} on average "
            f"(rollout.engine.max_gap allows {bound:g} in {dtype}), by {worst.row:.2g} in this sample's row: it does not sample "
            f"with the trainer's weights{f'; {why}' if why else ''}; --resume continues from the last checkpoint"
        )
