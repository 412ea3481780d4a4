"""The loop: collect, estimate, batch, update, sync, log, evaluate, save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from vlrft.advantages.rows import rollout_means, turn_means
from vlrft.config import Config
from vlrft.distributed.interrupts import deferred_signals
from vlrft.distributed.phases import work_on
from vlrft.distributed.session import rank_session
from vlrft.engine import TrainEngine
from vlrft.policy.policy import Policy
from vlrft.reporting.html.page import write_report
from vlrft.reporting.run_result import RunResult, read_result
from vlrft.rollout.engines import RolloutEngine, StreamingEngine
from vlrft.schema.errors import TrainingStopped
from vlrft.trainer.ahead.collecting import Collecting, collecting
from vlrft.trainer.callbacks import Callback, Callbacks, StopTraining
from vlrft.trainer.divergence import stopping_at_divergence
from vlrft.trainer.rank_facts import compare_settings
from vlrft.trainer.reference import build_reference, update_reference
from vlrft.trainer.run import Run
from vlrft.trainer.self_checks import check_step
from vlrft.trainer.setup import open_run
from vlrft.trainer.stage import Stage
from vlrft.trainer.step_metrics import Timer, step_metrics
from vlrft.trainer.stopping import agree_to_stop, explain_interrupt, leave
from vlrft.trainer.update import Skipped, update


def train(
    config: Config,
    *,
    out: Path,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    announce: Callable[[Run], object] = id,
) -> RunResult:
    """Trains all stages and writes report.html. `announce` is called on every rank before the first step.

    A first SIGINT, SIGTERM or SIGHUP lets the current step end, saves a checkpoint and raises Interrupted; a second one
    raises it at once. Raises the exception of a callback, after a checkpoint is saved.
    """
    with rank_session(config) as ranks:
        compare_settings(ranks, config, out=out, resume=resume, overwrite=overwrite)
        called = Callbacks(callbacks, first=ranks.first)
        run = open_run(config, out, ranks, resume=resume, overwrite=overwrite)
        run.callbacks = called
        stopped = None
        with run.folder, run.policy.float32_products():
            try:
                if run.step < run.last_step:
                    announce(run)
                    train_stages(run)
                else:
                    run.log.message(
                        f"{out}: the run is finished, {run.step} of {run.last_step} steps; nothing is left to train"
                    )
            except StopTraining as e:
                stopped = str(e)
                run.log.message(f"a callback stopped the run after step {run.step}: {stopped}")
            except KeyboardInterrupt as e:
                run.abandon_save()
                raise explain_interrupt(run, e) from None
            finally:
                run.end_save()
                run.close()
            ranks.run_on_first(lambda: write_report(out))
        result = read_result(out, stopped=stopped)
    called.end(result)  # which may take any time: the other ranks have left
    return result


def train_stages(run: Run) -> None:
    """Evaluates a new run's policy, and trains the stages that are not done yet."""
    if run.step == 0:
        run.evaluate("init")
        if stop := agree_to_stop(run):
            leave(run, stop)
    with deferred_signals(run.log.message) as run.signals:
        for stage in run.stages:
            if run.step < stage.settings.last:
                with (
                    stopping_at_divergence(run, stage.settings),
                    collecting(stage, run.step) as source,
                ):
                    train_stage(run, stage, source)
        run.finish_save()


def train_stage(run: Run, stage: Stage, source: Collecting) -> None:
    """Trains the steps of a stage that are not done yet, on the groups that `source` collects."""
    settings = stage.settings
    reference, engine = begin_stage(run, stage)
    skips = 0
    for step in run.profiler.over(settings.name, range(run.step + 1, settings.last + 1)):
        timer = Timer()
        work_on((), step)
        run.folder.refuse_if_lost()
        with timer("rollout"), ready_to_sample(run.rollout, engine):
            collected = source.collect(step, timer)
            groups, advantages = stage.select_and_estimate(step, collected.groups)
        with timer("update"):
            batches = stage.make_batches(groups, advantages)
            check_step(stage, step, engine, batches)
            algorithm, budget = settings.algorithm_at(step), settings.micro_batch_tokens
            update_metrics, skipped = update(engine, batches, algorithm, budget, reference)
        run.rollout.load_weights(run.policy.weights(engine.gather_in_turn), step)
        source.release(step)
        if reference is not None:
            update_reference(settings, step, run.policy, engine, reference)
        run.step = step
        rewards = settings.loaded.rewards
        metrics = step_metrics(
            collected, advantages, batches, update_metrics, rewards, timer, run.ranks
        )
        metrics |= stage.prompt_metrics() | source.metrics(step, collected)
        means, by_turn = rollout_means(advantages), turn_means(groups, advantages)
        run.log.step(settings.name, step, metrics, groups, means, by_turn)
        for line in run.zero_rewards.observe(metrics, collected.sampled, settings.loaded):
            run.log.message(line)
        run.callbacks.step(step, metrics)
        skips = count_skips(run, skipped, skips, settings.config.update.max_nonfinite_steps)
        last = step == settings.last
        if last or run.due(run.config.eval.every):
            with ready_to_sample(run.rollout, engine):
                run.evaluate(settings.name)
        if last or run.due(run.config.save.every):
            run.save(engine, reference)
        run.observe_save()
        if step < run.last_step and (stop := agree_to_stop(run)):
            run.finish_save()
            if run.saved_step < step:
                run.save(engine, reference)
                run.finish_save()
            engine.close()
            leave(run, stop)
    engine.close()


def begin_stage(run: Run, stage: Stage) -> tuple[Policy | None, TrainEngine]:
    """The reference, if the stage needs one, and the train engine; those of the checkpoint where the run resumed within the
    stage."""
    resumed = run.take_resumed(stage)
    return build_reference(stage.settings, run.policy, resumed), stage.build_engine(resumed)


def ready_to_sample(rollout: RolloutEngine, engine: TrainEngine) -> AbstractContextManager[None]:
    """A context in which the rollout engine may be called: one that streams does not use the policy's module, whose weights then stay
    sharded."""
    return nullcontext() if isinstance(rollout, StreamingEngine) else engine.ready_to_sample()


def count_skips(run: Run, skipped: Sequence[Skipped], before: int, limit: int) -> int:
    """Logs the optimiser steps that the current step skipped; returns the number of consecutive steps with a skip, including
    `before`. Raises TrainingStopped at the limit."""
    for skip in skipped:
        samples = list(skip.samples[:8])
        run.log.message(f"step {run.step} was skipped: {skip.reason}; samples {samples}")
    skips = before + 1 if skipped else 0
    if skips >= limit:
        run.finish_save()
        checkpoint = run.checkpoints.latest()
        raise TrainingStopped(
            f"{run.out}: training stops after {skips} steps in a row with non-finite numbers; "
            f"last intact checkpoint: {checkpoint or 'none yet'}; lower update.lr or look at the samples named above"
        )
    return skips
