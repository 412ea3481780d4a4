"""Training runs that are made once: a finished one with the same settings is used again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.learning.outcomes import read_json_lines
from vlrft.config.load import load_config
from vlrft.reporting.run_folder.names import CONFIG, METRICS, REPORT
from vlrft.schema.errors import VlrftError
from vlrft.trainer.resumed_config import refuse_changes


def train_once(
    config: str | Path,
    overrides: Sequence[str],
    run: Path,
    *,
    threads: int | None = None,
    resume: bool = False,
) -> Path:
    """`run`, into which `vlrft train` writes unless the run there is finished; its output is in `run`.txt. One that was stopped
    is resumed with `resume`, and otherwise begins again.

    Exits with one line where a finished run has other settings, and where training fails.
    """
    if is_finished(run):
        _refuse_other_settings(config, overrides, run)
        return run
    resumed = resume and (run / "checkpoints" / "last").exists()
    command = [sys.executable, "-m", "vlrft", "train", str(config), *overrides]
    command += ["--out", str(run), "--resume" if resumed else "--overwrite"]
    env = dict(os.environ)
    if threads is not None:
        env |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    run.parent.mkdir(parents=True, exist_ok=True)
    output = run.with_suffix(".txt")
    with output.open("a" if resumed else "w") as log:
        ended = subprocess.run(command, check=False, env=env, stdout=log, stderr=log)
    if ended.returncode:
        lines = output.read_text(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.startswith("vlrft: ")), "no message")
        sys.exit(f"{run}: vlrft train ended with {ended.returncode}: {last} (all of it: {output})")
    return run


def is_finished(run: Path) -> bool:
    """Whether the run has its report, and all steps of its config: `vlrft report` writes one of a stopped run, too."""
    if not (run / REPORT).exists():
        return False
    steps = [stage.steps for stage in load_config(run / CONFIG, secrets=False).stages]
    done = sum(1 for _ in read_json_lines(run / METRICS))
    return done >= sum(count or 0 for count in steps)


def _refuse_other_settings(config: str | Path, overrides: Sequence[str], run: Path) -> None:
    stored = run / CONFIG
    try:
        refuse_changes(load_config(str(stored)), load_config(str(config), overrides), stored)
    except VlrftError as e:
        problem = str(e).removeprefix("--resume: ")
        sys.exit(f"{run} is a finished run with other settings: {problem}")
