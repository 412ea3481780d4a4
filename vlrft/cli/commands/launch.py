"""vlrft launch: `vlrft train` in several processes of this machine."""

from __future__ import annotations

import argparse

from vlrft.config.load import load_config
from vlrft.config.overrides import overrides_of
from vlrft.distributed.interrupts import Interrupted, signal_of
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST, default_folder
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    # here, so that a mistake is reported once, not by every rank
    config = load_config(args.config, [*args.overrides, *overrides_of({"ranks.count": args.ranks})])
    ranks = config.ranks.count
    if ranks is None:
        raise ConfigError(["launch: give --ranks N, for the config does not say ranks.count"])
    from vlrft.distributed.launcher import launch

    command = ["train", args.config, *args.overrides]
    command += ["--out", str(args.out)] if args.out else []
    command += [f"--{name}" for name in ("resume", "overwrite", "debug") if getattr(args, name)]
    try:
        return launch(command, ranks)
    except KeyboardInterrupt as e:  # a second signal: the ranks could not say it
        last = (args.out or default_folder(args.config)) / CHECKPOINTS / LAST
        checkpoint = last.resolve().name if last.is_dir() else "none"
        raise Interrupted(signal_of(e), f"stopped at once; last checkpoint: {checkpoint}") from None
