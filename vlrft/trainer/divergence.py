"""A policy that diverges: its checkpoint is not written, its run stops with what to lower, and a resumed run passes over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from vlrft.policy.finite import has_finite_logprobs
from vlrft.schema.errors import DivergedError, NonFiniteError, TrainingStopped
from vlrft.trainer.run import Run
from vlrft.trainer.stage_settings import StageSettings


@contextmanager
def stopping_at_divergence(run: Run, stage: StageSettings) -> Iterator[None]:
    """A context for the training of a stage: a policy that cannot be used any more is a TrainingStopped that names the
    checkpoint to go on from, and the settings to lower."""
    try:
        yield
    except (DivergedError, NonFiniteError) as e:
        run.end_save()
        checkpoint = run.checkpoint
        update = stage.config.update
        clip = "null" if update.max_grad_norm is None else f"{update.max_grad_norm:g}"
        start = f"policy.model={checkpoint}" if checkpoint else "the same policy"
        raise TrainingStopped(
            f"{run.out}: training stops after step {run.step}: {e}; last good checkpoint: {checkpoint or 'none'}; "
            f"--resume would end here again: lower update.lr ({update.lr:g}), update.weight_decay "
            f"({update.weight_decay:g}) or update.max_grad_norm ({clip}) of stage {stage.name}, and train from {start} "
            "to another --out"
        ) from e


def restore_latest(run: Run) -> Path | None:
    """Restores the newest intact checkpoint whose policy gives finite log-probs; None where there is no checkpoint.

    Passes over the others with a message: earlier versions saved such policies. Raises CheckpointError where none is left.
    """
    before: int | None = None
    while True:
        path = run.ranks.run_on_first(partial(run.checkpoints.latest, before))
        if path is None:
            return None
        run.restore(path)
        if has_finite_logprobs(run.policy, run.ranks):
            run.checkpoint = path
            run.ranks.run_on_first(partial(run.checkpoints.point_last, path))
            return path
        before = run.step
        run.log.message(
            f"{path} holds a policy whose log-probs are NaN or infinite; trying the checkpoint before it"
        )
