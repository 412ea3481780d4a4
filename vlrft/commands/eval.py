"""vlrft eval"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vlrft.config import ConfigError, PolicyConfig
from vlrft.loading import eval_config
from vlrft.schema import Record


def run(args: argparse.Namespace) -> None:
    if args.json is not None and args.json.exists() and not args.overwrite:
        raise ConfigError([f"{args.json} exists; use --overwrite or another --json"])
    task, rollout = eval_config(args.task, args.overrides)
    from transformers.utils import logging as transformers_logging

    from vlrft.binding import bind
    from vlrft.evaluate import evaluate
    from vlrft.policy.load import load_policy
    from vlrft.rollout import build
    from vlrft.run import greedy_player, pick_device

    transformers_logging.disable_progress_bar()
    bound = bind(task, args.split)
    policy = load_policy(PolicyConfig(model=args.model), device=pick_device("auto"))
    samples = bound.head(args.limit)
    play = greedy_player(bound, build(rollout, policy), policy.chat, rollout)
    found = evaluate(bound.task, samples, play)
    for name, figure in found.scores.items():
        low, high = figure.ci
        print(
            f"{name:12s} {figure.correct}/{figure.n}  {100 * figure.score:.2f}  "
            f"[{100 * low:.2f}, {100 * high:.2f}]"
        )
    if args.json is not None:
        write(
            args.json,
            {"model": args.model, "task": args.task, "split": args.split},
            found.to_json(),
            found.records,
        )


def write(path: Path, what: dict[str, str], scores: object, records: tuple[Record, ...]) -> None:
    """Figures and every record."""
    rows = [
        {
            "id": r.id,
            "output": r.output,
            "scores": dict(r.scores),
            "tags": dict(r.tags),
            "answer": r.answer,
            "truncated": r.truncated,
        }
        for r in records
    ]
    path.write_text(
        json.dumps({**what, "scores": scores, "records": rows}, indent=1, ensure_ascii=False)
    )
