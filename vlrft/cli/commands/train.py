"""vlrft train: a run from one config, in a new folder or resumed."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.schema.errors import VlrftError

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
        memory = partial(memory_verdict, config, run.ranks.size)
        for line in header(run, memory if run.policy.device.type == "cuda" else None):
            run.log.message(line)

    transformers_logging.disable_progress_bar()  # it would break the run's own progress line
    out = args.out or Path("runs") / Path(args.config).stem
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


def memory_verdict(config: Config, ranks: int) -> str:
    """The planner's verdict in one line; the reason where it has none."""
    import torch

    from vlrft.distributed.device import pick_device
    from vlrft.memory.plan import FILL_LIMIT, format_bytes
    from vlrft.trainer.memory_plan.device_memory import available_memory
    from vlrft.trainer.memory_plan.planner import Planner
    from vlrft.trainer.memory_plan.suggestions import peak_bytes

    device = pick_device(config.device)
    try:
        with torch.random.fork_rng(devices=[]):
            peak = peak_bytes(Planner(config, device, ranks).plans(config))
        size, _ = available_memory(None, device, ranks)
    except VlrftError as e:
        return f"not planned: {e}"
    verdict = (
        "fits" if peak <= FILL_LIMIT * size else "may not fit; vlrft doctor CONFIG says what helps"
    )
    return f"peak about {format_bytes(peak)} of {format_bytes(size)} a rank: {verdict}"
