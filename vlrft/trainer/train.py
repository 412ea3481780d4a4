"""The loop: collect, batch, update, sync, log, evaluate, save."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torch import Tensor

from vlrft.advantages.rows import rollout_means, turn_means
from vlrft.config import Config
from vlrft.distributed.session import rank_session
from vlrft.engine import TrainEngine
from vlrft.policy.policy import Policy
from vlrft.reporting.html.page import write_report
from vlrft.schema.errors import TrainingStopped
from vlrft.selection.collect import collect
from vlrft.tracing.phases import work_on
from vlrft.trainer.batch import make_batches
from vlrft.trainer.run import Run, Stage
from vlrft.trainer.setup import open_run
from vlrft.trainer.step_metrics import Timer, step_metrics
from vlrft.trainer.update import Skipped, check_packing, update


def train(config: Config, *, out: Path, resume: bool = False, overwrite: bool = False) -> Path:
    """Trains through all stages; returns the run's folder, which then holds report.html."""
    with rank_session(config) as ranks:
        run = open_run(config, out, ranks, resume=resume, overwrite=overwrite)
        try:
            if run.step == 0:
                run.evaluate("init")
            for stage in run.stages:
                if run.step < stage.last:
                    train_stage(run, stage)
        finally:
            run.close()
        ranks.run_on_first(lambda: write_report(out))
    return out


def train_stage(run: Run, stage: Stage) -> None:
    """All of a stage's steps that are still to do."""
    algorithm, config = stage.algorithm, stage.config
    reference = run.reference(stage)
    engine = run.engine(stage)
    bad = 0
    for step in run.profiler.over(stage.name, range(run.step + 1, stage.last + 1)):
        timer = Timer()
        work_on((), step)
        with timer("rollout"), engine.ready_to_sample():
            play = partial(run.groups, stage, step)
            found = collect(stage.prompts, play, algorithm.keep, config.prompts_per_step)
            groups, advantages = run.lesson(stage, found.groups)
        with timer("update"):
            batches = make_batches(
                groups,
                advantages,
                algorithm,
                temperature=stage.temperature,
                max_tokens=config.rollout.max_tokens,
                updates=config.update.updates_per_batch,
                ranks=run.ranks,
            )
            budget = config.update.max_tokens_per_micro_batch
            if run.config.self_check and step == stage.first + 1 and batches:
                with engine.unsharded():
                    check_packing(run.policy, batches[0], budget)
            now = algorithm.at((step - 1 - stage.first) / (stage.last - stage.first))
            figures, skipped = update(engine, batches, now, budget, reference)
        run.rollout.load_weights(_weights(engine, run.policy), step)
        run.step = step
        run.follow(stage, engine, reference)
        metrics = step_metrics(
            found, advantages, batches, figures, stage.loaded.rewards, timer, run.ranks
        ) | run.prompt_metrics(stage)
        means, by_turn = rollout_means(advantages), turn_means(groups, advantages)
        run.log.step(stage.name, step, metrics, groups, means, by_turn)
        bad = _count(run, skipped, bad, config.update.max_nonfinite_steps)
        last = step == stage.last
        if last or run.due(run.config.eval.every):
            with engine.ready_to_sample():
                run.evaluate(stage.name)
        if last or run.due(run.config.save.every):
            run.save(engine, reference)
    engine.close()


def _weights(engine: TrainEngine, policy: Policy) -> Iterator[tuple[str, Tensor]]:
    """The policy's weights, gathered from all ranks while they are read."""
    with engine.unsharded():
        yield from policy.weights()


def _count(run: Run, skipped: list[Skipped], bad: int, limit: int) -> int:
    """Skipped optimiser steps in a row, each one logged. Raises TrainingStopped at the limit."""
    for one in skipped:
        run.log.message(f"step {run.step} not taken: {one.reason}; samples {list(one.samples[:8])}")
    bad = bad + 1 if skipped else 0
    if bad >= limit:
        good = run.checkpoints.latest()
        raise TrainingStopped(
            f"{bad} steps in a row had numbers that are not finite, {run.out} stops; "
            f"last good checkpoint: {good or 'none yet'}; lower update.lr or look at the samples named above"
        )
    return bad
