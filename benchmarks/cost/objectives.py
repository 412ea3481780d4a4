"""Time of each algorithm's loss, relative to the language-model head whose log-probs it reads.

    python -m benchmarks.cost objectives [--rows 512 --tokens 2048] [--hidden 1536 --vocab 151936] [--out FILE.json]

Times each algorithm's loss and its gradient over [rows, tokens] log-probs, and the head's forward and backward (hidden
state -> logits -> log-prob -> gradients of hidden state and weight) over `--head-tokens` tokens. The head's time is
proportional to the tokens and is scaled to rows · tokens. Prints a line per algorithm; the goal is below 5 %.
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
    """Median of the repeats; one warm-up before them is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def head_seconds(hidden: int, vocab: int, tokens: int, repeats: int) -> float:
    """Forward and backward of the head over `tokens` tokens."""
    weight = torch.randn(vocab, hidden, requires_grad=True)
    states = torch.randn(tokens, hidden, requires_grad=True)
    targets = torch.randint(vocab, (tokens,))

    def work() -> None:
        logits = states @ weight.T
        picked = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)
        torch.autograd.grad(picked.sum(), (states, weight))

    return seconds(work, repeats)


def make_inputs(rows: int, tokens: int, group: int) -> dict[str, Any]:
    """The loss's inputs of a step: rows of equal length with random log-probs and rewards."""
    logprobs = -torch.rand(rows, tokens)
    mask = torch.rand(rows, tokens) < 0.9
    return {
        "rewards": torch.randint(0, 2, (rows,)).float(),
        "group": torch.arange(rows) // group,
        "mask": mask,
        "old_logprobs": logprobs - 0.01,
        "ref_logprobs": logprobs - 0.02,
        "logprobs": logprobs,
    }


def algorithm_seconds(name: str, inputs: dict[str, Any], repeats: int) -> float:
    """Advantages, loss and the gradient of the log-probs."""
    algorithm = ALGORITHMS[name]
    extras: dict[str, Any] = {"length": inputs["mask"].shape[1]}
    if algorithm.estimator.greedy:
        extras["greedy_rewards"] = torch.zeros(len(inputs["rewards"]))

    def work() -> None:
        leaf: Tensor = inputs["logprobs"].clone().requires_grad_()
        result = policy_loss(name, **{**inputs, "logprobs": leaf}, extras=extras)
        torch.autograd.grad(result.loss, leaf)

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
    head_time = head_seconds(args.hidden, args.vocab, args.head_tokens, args.repeats)
    head = head_time * args.rows * args.tokens / args.head_tokens
    inputs = make_inputs(args.rows, args.tokens, args.group)
    print(f"torch {version('torch')}, {torch.get_num_threads()} threads, {platform.machine()}")
    print(f"head [{args.hidden} x {args.vocab}]: {head_time:.2f} s for {args.head_tokens} tokens")
    rows = []
    for name in ALGORITHMS:
        loss_time = algorithm_seconds(name, inputs, args.repeats)
        rows.append({"algorithm": name, "seconds": loss_time, "share_of_head": loss_time / head})
        print(
            f"{name:16s} {loss_time:7.3f} s  {100 * loss_time / head:7.4f} % of the head",
            flush=True,
        )
    if args.out is not None:
        arguments = {k: v for k, v in vars(args).items() if k != "out"}
        results = {"arguments": arguments, "head": head_time}
        versions = {"torch": version("torch"), "vlrft": version("vlrft")}
        threads = torch.get_num_threads()
        args.out.write_text(
            json.dumps(
                {**results, "versions": versions, "threads": threads, "rows": rows}, indent=1
            )
        )


if __name__ == "__main__":
    main()
