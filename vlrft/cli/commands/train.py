"""vlrft train: a run from one config, in a new folder or resumed."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlrft.config.load import load_config


def run(args: argparse.Namespace) -> None:
    config = load_config(args.config, args.overrides)
    from transformers.utils import logging as transformers_logging

    from vlrft.distributed.ranks import rank_from_environment
    from vlrft.reporting.html.page import summary_table
    from vlrft.trainer.train import train

    transformers_logging.disable_progress_bar()  # it would break the run's own progress line
    out = args.out or Path("runs") / Path(args.config).stem
    train(config, out=out, resume=args.resume, overwrite=args.overwrite)
    if rank_from_environment():
        return
    print(summary_table(out))
    print(f"report: {out / 'report.html'}")
    if config.profile:
        print(f"profile: {out / 'profile.md'}")
    print(f"model:  {out / 'checkpoints' / 'last'}")
