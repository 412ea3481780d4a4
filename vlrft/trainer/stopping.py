"""A run that is stopped: between two steps by a signal to any rank or by a callback, or at once by a second signal."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass
from typing import NoReturn

from vlrft.distributed.interrupts import STOP_SIGNALS, Interrupted, signal_of
from vlrft.reporting.run_folder.names import CONFIG
from vlrft.schema.errors import TrainingStopped
from vlrft.trainer.callbacks import StopTraining
from vlrft.trainer.run import Run


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The reason to stop after a step, the same on every rank."""

    number: int  # of the signal; 0: none
    failed: bool  # a callback on rank 0 raised


def agree_to_stop(run: Run) -> Stop | None:
    """The reason to stop, where a rank has one. Every rank calls this after the same step."""
    callbacks = run.callbacks
    wanted = (callbacks.failure is not None, callbacks.stop is not None)
    sent = [run.signals.number == number for number in STOP_SIGNALS]
    failed, stopped, *signals = run.ranks.sum_each(*map(float, (*wanted, *sent)))
    number = next((n for n, count in zip(STOP_SIGNALS, signals, strict=True) if count), 0)
    return Stop(number=number, failed=failed > 0) if failed or stopped or number else None


def leave(run: Run, stop: Stop) -> NoReturn:
    """Ends the run after a step that is saved.

    Raises the exception of a callback (on other ranks than 0: TrainingStopped), Interrupted, or StopTraining.
    """
    if stop.failed:
        other = TrainingStopped(
            f"{run.out}: a callback on rank 0 raised; the output of rank 0 says what"
        )
        raise run.callbacks.failure or other
    if stop.number:
        name = signal.Signals(stop.number).name
        state = f"saved {run.checkpoint}; continue with: {resume_command(run)}"
        raise Interrupted(stop.number, f"stopped by {name} after step {_progress(run)}; {state}")
    raise run.callbacks.stop or StopTraining("a callback on rank 0")


def explain_interrupt(run: Run, error: KeyboardInterrupt) -> Interrupted:
    """The interrupt with what it leaves, for one that came where the run could not save its state."""
    number = signal_of(error)
    if str(error):
        return Interrupted(number, str(error))
    if run.checkpoint is None:
        state = f"no checkpoint was written, so nothing of {run.out} can be continued"
    else:
        lost = run.step - run.saved_step
        steps = f"; {lost} step{'s'[: lost != 1]} after it must be done again" if lost else ""
        state = f"last checkpoint: {run.checkpoint}{steps}; continue with: {resume_command(run)}"
    name = signal.Signals(number).name
    return Interrupted(number, f"stopped at once by {name}, after step {_progress(run)}; {state}")


def resume_command(run: Run) -> str:
    """The command that continues the run."""
    out = shlex.quote(str(run.out))
    ranks = "train" if run.ranks.size == 1 else f"launch --ranks {run.ranks.size}"
    return f"vlrft {ranks} {shlex.quote(str(run.out / CONFIG))} --out {out} --resume"


def _progress(run: Run) -> str:
    return f"{run.step} of {run.last_step}"
