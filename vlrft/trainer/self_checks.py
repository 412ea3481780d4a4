"""`self_check` of a stage's steps: the packed forward pass, and the rollout engine's log-probs."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.distributed.ranks import Ranks
from vlrft.engine import TrainEngine
from vlrft.rollout.engines import Sampling
from vlrft.trainer.ahead.probe import resample
from vlrft.trainer.batch import Batch
from vlrft.trainer.sampler_check import measure_sampler_gap, require_small_gap
from vlrft.trainer.stage import Stage
from vlrft.trainer.update import check_packing


def check_step(stage: Stage, step: int, engine: TrainEngine, batches: Sequence[Batch]) -> None:
    """The checks that are due before the update of a step. Raises SelfCheckError on every rank where one fails."""
    if step == stage.settings.first + 1:
        stage.unchecked = stage.run_config.self_check
    if not batches:
        return
    if stage.unchecked and (batch := first_with_rows(batches, stage.ranks)) is not None:
        _check_first(stage, engine, batch)
        stage.unchecked = False
    if stage.settings.algorithm.answers == "sampled":
        _check_sampler(stage, step, engine, batches[0])


def first_with_rows(batches: Sequence[Batch], ranks: Ranks) -> Batch | None:
    """The first of a step's batches of which some rank has rows; None where all rewards are equal. Every rank calls it."""
    return next((batch for batch in batches if ranks.sum_count(len(batch.ids))), None)


def _check_first(stage: Stage, engine: TrainEngine, batch: Batch) -> None:
    """Before the stage's first update: the packed forward pass against the unpacked one, and its log-probs against those of the
    rollout engine, where no gate compares them."""
    policy, settings = stage.policy, stage.settings
    with engine.unsharded():
        check_packing(policy, batch, settings.micro_batch_tokens)
        if stage.gate is not None:
            return
        rollout = settings.config.rollout
        gap = measure_sampler_gap(policy, batch, settings.micro_batch_tokens, rollout)
    require_small_gap(gap, policy.rounding_dtype, stage.ranks)


def _check_sampler(stage: Stage, step: int, engine: TrainEngine, batch: Batch) -> None:
    """The gate of an engine with weights of its own, at some steps: log-probs of rollouts against the trainer's. Rollouts that
    were sampled ahead are of earlier weights; a few completions are then sampled again."""
    settings = stage.settings
    if stage.gate is None or not stage.gate.is_due():
        return
    rollout = settings.config.rollout
    if settings.ahead:
        batch = resample(batch, stage.rollout, Sampling.of(rollout), step=step)
    with engine.unsharded():
        gap = measure_sampler_gap(stage.policy, batch, settings.micro_batch_tokens, rollout)
    stage.gate.require(gap, stage.policy.rounding_dtype, step)
