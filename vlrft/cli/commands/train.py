"""vlrft train: a run from one config, in a new folder or resumed."""

from __future__ import annotations

import argparse
import sys

from vlrft.config.load import load_config
from vlrft.reporting.run_folder.names import default_folder

EARNED_NOTHING = 3  # exit code


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config, args.overrides)
    from transformers.utils import logging as transformers_logging

    from vlrft.distributed.ranks import rank_from_environment
    from vlrft.reporting.html.page import summary_table
    from vlrft.trainer.header import header
    from vlrft.trainer.run import Run
    from vlrft.trainer.train import train

    def announce(run: Run) -> None:
        for line in header(run):
            run.log.message(line)

    transformers_logging.disable_progress_bar()  # it would break the run's own progress line
    out = args.out or default_folder(args.config)
    result = train(config, out=out, resume=args.resume, overwrite=args.overwrite, announce=announce)
    watched = config.log.zero_reward_steps > 0 and not config.permute_rewards
    code = EARNED_NOTHING if result.earned_nothing and watched else 0
    if rank_from_environment():
        return code
    print(summary_table(out))
    print(f"report: {out / 'report.html'}")
    if config.profile:
        print(f"profile: {out / 'profile.md'}")
    print(f"model:  {out / 'checkpoints' / 'last'}")
    if code:
        print(
            "vlrft: no completion earned a reward from the first step to the last, so nothing was learned from rewards (exit code 3)",
            file=sys.stderr,
        )
    return code
