"""`vlrft.train`: a run from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.reporting.run_folder.names import default_folder
from vlrft.reporting.run_result import RunResult
from vlrft.schema.errors import ConfigError
from vlrft.trainer.api.configs import ConfigLike, read_config
from vlrft.trainer.api.quiet import quiet_transformers
from vlrft.trainer.callbacks import Callback


def train(
    config: ConfigLike,
    *,
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
) -> RunResult:
    """Trains all stages of a config, as `vlrft train` does, and returns the run's folder, checkpoint, metrics and history.

        result = vlrft.train("quickstart", overrides={"rollout.group_size": 16, "seed": 1})
        result.checkpoint, result.metrics

    `config`: the name of a shipped config, the path of a YAML file, its content as a mapping, or a Config.
    `out`: the run's folder; by default `runs/NAME`, where the config has a name.
    `overrides`: config keys and their values, `{"stages.1.steps": 50}`, or `["stages.1.steps=50"]`.
    `resume`: continue from the last intact checkpoint in `out`; `overwrite`: replace the run in it.
    `callbacks`: see vlrft.Callback.

    In a notebook, interrupting the kernel lets the current step end, saves a checkpoint and raises KeyboardInterrupt, whose
    text says how to continue; interrupting it twice stops at once. Handlers of signals are restored when the call ends.

    Raises ConfigError for mistakes in the arguments, the config or the folder, before anything is written, and other kinds
    of VlrftError for what fails later. Under `torchrun` every rank calls this, and callbacks run on rank 0.
    """
    from vlrft.trainer.header import header
    from vlrft.trainer.run import Run
    from vlrft.trainer.train import train as train_config

    def announce(run: Run) -> None:
        for line in header(run):
            run.log.message(line)

    settings = read_config(config, overrides)
    if out is None:
        if not isinstance(config, str | Path):
            raise ConfigError(
                ["out: give the run's folder; this config has no name to make one from"]
            )
        out = default_folder(config)
    with quiet_transformers():
        return train_config(
            settings,
            out=Path(out),
            resume=resume,
            overwrite=overwrite,
            callbacks=callbacks,
            announce=announce,
        )
