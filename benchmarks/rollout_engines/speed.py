"""Tokens for each processor second, by size of the policy, size of the groups, and engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.rollout_engines.sides import QUESTION, TreeMeter, make_policy, open_engine
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, RolloutEngine, Sampling
from vlrft.schema import IMAGE
from vlrft.testing.small_policies import ask, noise_image

GROUPS = (1, 4, 16)
WORK = {"1 M": (64, 64), "100 M": (32, 32), "500 M": (16, 16)}  # completions, and tokens of each
SIDE = 112  # of the image: 16 tokens
REPEATS = 2


def measure(size: str, name: str, python: str) -> Iterator[dict[str, Any]]:
    """A row for each size of groups: the repeat with the fewest processor seconds."""
    rows, length = WORK[size]
    policy = make_policy(size)
    policy.chat.end_ids = frozenset()  # every completion is as long as it may be
    parameters = sum(weight.numel() for weight in policy.model.parameters())
    with open_engine(name, policy, python) as engine:
        sample(engine, policy, 2, 1, 2, 99)  # the first call starts threads and fills caches
        for group in GROUPS:
            repeats = [sample(engine, policy, rows, group, length, k) for k in range(REPEATS)]
            best = min(repeats, key=lambda repeat: repeat["cpu_seconds"])
            shape = {"group": group, "rows": rows, "length": length, "parameters": parameters}
            yield {**shape, **best}


def sample(
    engine: RolloutEngine, policy: Policy, rows: int, group: int, length: int, seed: int
) -> dict[str, Any]:
    """Samples once; the prompts of each `seed` are new, so that no cache has them."""
    requests = [
        Request(
            id=str(k),
            prompt=policy.chat.render(
                ask(IMAGE, f"{seed} {k}. {QUESTION}"), [noise_image(SIDE, SIDE, 1000 * seed + k)]
            ),
            seeds=tuple(range(group)),
        )
        for k in range(rows // group)
    ]
    meter = TreeMeter()
    pieces = engine.generate(requests, Sampling(max_tokens=length))
    measured = meter.read()
    tokens = sum(len(piece.ids) for group_pieces in pieces for piece in group_pieces)
    return {**measured, "tokens": tokens, "prompt": len(requests[0].prompt.ids)}
