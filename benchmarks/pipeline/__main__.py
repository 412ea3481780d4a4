"""Throughput, idle shares and staleness of rollouts ahead of training, by a discrete-event model.

    python -m benchmarks.pipeline [--servers 1 2 … 64] [--ahead 0 1 … 8] [--spread 0 0.8 1.2] [--token S] [--row S]
                                  [--prefill S] [--train S] [--push S] [--samples N] [--group N] [--tokens N] …
                                  [--steps 16] [--seed 0] [--out FILE]

Nothing is measured: the times are given on the command line (their defaults are assumptions, printed with the result), or
taken from `python -m benchmarks.rollout_engines`, whose page compares the model with real runs. The model has servers that
decode many requests together and are paused for new weights, environments, and a trainer that takes the steps in order
(`vlrft.testing.pipeline`). Equal arguments give equal numbers. Writes benchmarks/results/pipeline.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.pipeline.tables import ahead_page, episodes_page
from vlrft.testing.pipeline.plan import Pipeline, ServerTimes, Workload

RESULTS = Path(__file__).parents[1] / "results" / "pipeline.md"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--ahead", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--spread", type=float, nargs="+", default=[0.0, 0.8, 1.2])
    parser.add_argument(
        "--token", type=float, default=0.012, help="seconds of a decoding step with one row"
    )
    parser.add_argument("--row", type=float, default=5e-5, help="and of each further row")
    parser.add_argument("--prefill", type=float, default=2e-5, help="seconds of a prompt token")
    parser.add_argument(
        "--rows", type=int, default=256, help="requests that a server decodes at once"
    )
    parser.add_argument("--train", type=float, default=20.0, help="seconds of an update")
    parser.add_argument("--push", type=float, default=2.0, help="seconds of new weights")
    parser.add_argument("--samples", type=int, default=64, help="prompts of a step")
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--tokens", type=float, default=600, help="mean length of a completion")
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--prompt", type=int, default=600, help="tokens of a prompt")
    parser.add_argument("--turns", type=int, default=20, help="of an episode, in the second part")
    parser.add_argument("--turn-tokens", type=float, default=60)
    parser.add_argument(
        "--environment", type=float, default=0.5, help="mean seconds of an environment's turn"
    )
    parser.add_argument("--workers", type=int, default=64, help="environments at once")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    args = parse()
    pipeline = Pipeline(
        server=ServerTimes(token=args.token, row=args.row, prefill=args.prefill, rows=args.rows),
        train=args.train,
        push=args.push,
    )
    work = Workload(
        samples=args.samples,
        group=args.group,
        tokens=args.tokens,
        max_tokens=args.max_tokens,
        prompt=args.prompt,
    )
    episodes = Workload(
        samples=args.samples // 4 or 1,
        group=args.group // 2 or 1,
        tokens=args.turn_tokens,
        max_tokens=args.max_tokens,
        prompt=args.prompt,
        turns=args.turns,
        environment=args.environment,
    )
    lines = ahead_page(
        pipeline, work, args.servers, args.ahead, args.spread, args.steps, args.seed
    ) + episodes_page(
        pipeline, episodes, args.workers, args.spread, args.steps // 4 or 1, args.seed
    )
    text = "\n".join(lines) + "\n"
    args.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
