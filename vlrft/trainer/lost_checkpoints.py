"""A resumed run whose checkpoints are gone."""

from __future__ import annotations

import os

from vlrft.reporting.files import read_log
from vlrft.reporting.run_folder.names import LAST, METRICS
from vlrft.schema.errors import ConfigError
from vlrft.schema.pluralize import pluralize
from vlrft.trainer.run import Run


def refuse_lost_checkpoints(run: Run) -> None:
    """Raises ConfigError where a resumed run without a checkpoint has had one: it would start again, over its logs."""
    logged = max((row["step"] for _, row in read_log(run.out, METRICS)), default=0)
    save = (run.folder.previous or run.config).save.every
    ends = [stage.settings.last for stage in run.stages]
    saved = [step for step in range(1, logged) if step in ends or (save and step % save == 0)]
    if saved or os.path.lexists(run.checkpoints.root / LAST) or run.checkpoints.root.is_symlink():
        raise ConfigError(
            [
                f"--resume: {run.checkpoints.root} has no checkpoint any more, and {run.out / METRICS} has "
                f"{pluralize(logged, 'step')}; put the checkpoints back, or start again with --overwrite"
            ]
        )
