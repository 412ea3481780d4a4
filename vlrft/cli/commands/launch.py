"""vlrft launch"""

from __future__ import annotations

import argparse

from vlrft.config.load import load_config
from vlrft.schema.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    if args.ranks < 1:
        raise ConfigError([f"--ranks: {args.ranks}; at least 1"])
    load_config(args.config, args.overrides)  # its mistakes are told once
    from vlrft.distributed.launcher import launch

    given = [args.config, *args.overrides]
    given += ["--out", str(args.out)] if args.out else []
    given += [f"--{name}" for name in ("resume", "overwrite", "debug") if getattr(args, name)]
    return launch(["train", *given], args.ranks)
