"""vlrft launch: `vlrft train` in several processes of this machine."""

from __future__ import annotations

import argparse

from vlrft.config.load import load_config


def run(args: argparse.Namespace) -> int:
    load_config(
        args.config, args.overrides
    )  # so that a mistake is reported once, not by every rank
    from vlrft.distributed.launcher import launch

    command = ["train", args.config, *args.overrides]
    command += ["--out", str(args.out)] if args.out else []
    command += [f"--{name}" for name in ("resume", "overwrite", "debug") if getattr(args, name)]
    return launch(command, args.ranks)
