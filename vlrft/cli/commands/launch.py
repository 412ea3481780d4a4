"""vlrft launch: `vlrft train` in several processes of this machine."""

from __future__ import annotations

import argparse

from vlrft.config.load import load_config
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    if args.ranks < 1:
        raise ConfigError([f"--ranks: {args.ranks}; expected at least 1"])
    load_config(
        args.config, args.overrides
    )  # so that a mistake is reported once, not by every rank
    from vlrft.distributed.launcher import launch

    command = ["train", args.config, *args.overrides]
    command += ["--out", str(args.out)] if args.out else []
    command += [f"--{name}" for name in ("resume", "overwrite", "debug") if getattr(args, name)]
    return launch(command, args.ranks)
