"""What an objective costs beside the language-model head that feeds it.

    python -m benchmarks.cost objectives [--rows 512 --tokens 2048] [--hidden 1536 --vocab 151936] [--out FILE.json]

Times each method's loss and its gradient over [rows, tokens] log-probs, and the head's forward and backward (hidden ->
logits -> log-prob -> gradient of hidden and weight) over `--head-tokens` tokens, scaled to as many tokens: the head's cost
is proportional to them. Prints a line a method; the goal is below 5 %.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from vlrft.algorithms import ALGORITHMS, policy_loss


def seconds(work: Callable[[], None], repeats: int) -> float:
    """Median of the repeats, after one that is not counted."""
    work()
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return median(spent)


def head_seconds(hidden: int, vocab: int, tokens: int, repeats: int) -> float:
    """Forward and backward of the head over so many tokens."""
    weight = torch.randn(vocab, hidden, requires_grad=True)
    states = torch.randn(tokens, hidden, requires_grad=True)
    targets = torch.randint(vocab, (tokens,))

    def work() -> None:
        logits = states @ weight.T
        picked = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)
        torch.autograd.grad(picked.sum(), (states, weight))

    return seconds(work, repeats)


def case(rows: int, tokens: int, group: int) -> dict[str, Any]:
    """A step of full-length rows with random log-probs and rewards."""
    own = -torch.rand(rows, tokens)
    mask = torch.rand(rows, tokens) < 0.9
    return {
        "rewards": torch.randint(0, 2, (rows,)).float(),
        "group": torch.arange(rows) // group,
        "mask": mask,
        "old_logprobs": own - 0.01,
        "ref_logprobs": own - 0.02,
        "logprobs": own,
    }


def method_seconds(name: str, given: dict[str, Any], repeats: int) -> float:
    """Advantages, loss and the gradient of the log-probs."""
    method = ALGORITHMS[name]
    extras: dict[str, Any] = {"length": given["mask"].shape[1]}
    if method.estimator.greedy:
        extras["greedy_rewards"] = torch.zeros(len(given["rewards"]))

    def work() -> None:
        leaf: Tensor = given["logprobs"].clone().requires_grad_()
        found = policy_loss(name, **{**given, "logprobs": leaf}, extras=extras)
        torch.autograd.grad(found.loss, leaf)

    return seconds(work, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (
        ("rows", 512),
        ("tokens", 2048),
        ("group", 8),
        ("hidden", 1536),
        ("vocab", 151936),
        ("head-tokens", 128),
        ("repeats", 3),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    measured = head_seconds(args.hidden, args.vocab, args.head_tokens, args.repeats)
    head = measured * args.rows * args.tokens / args.head_tokens
    given = case(args.rows, args.tokens, args.group)
    print(f"torch {version('torch')}, {torch.get_num_threads()} threads, {platform.machine()}")
    print(f"head [{args.hidden} x {args.vocab}]: {measured:.2f} s for {args.head_tokens} tokens")
    rows = []
    for name in ALGORITHMS:
        own = method_seconds(name, given, args.repeats)
        rows.append({"method": name, "seconds": own, "share_of_head": own / head})
        print(f"{name:16s} {own:7.3f} s  {100 * own / head:7.4f} % of the head", flush=True)
    if args.out is not None:
        found = {"arguments": {k: v for k, v in vars(args).items() if k != "out"}, "head": measured}
        versions = {"torch": version("torch"), "vlrft": version("vlrft")}
        threads = torch.get_num_threads()
        args.out.write_text(
            json.dumps({**found, "versions": versions, "threads": threads, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
