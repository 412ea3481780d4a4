"""How far the log-probs of a server are from the trainer's, for small policies."""

from __future__ import annotations

import torch

from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import RolloutEngine
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.schema import IMAGE, Piece, Prompt
from vlrft.testing.small_policies import ask, noise_image

SAMPLING = Sampling(max_tokens=24)
SEEDS = (0, 1, 2)


def prompts(policy: Policy) -> list[Prompt]:
    """With one image, two of different sizes, and none."""
    first, second = noise_image(112, 84, 1), noise_image(56, 140, 2)
    return [
        policy.chat.render(ask(IMAGE, "How many?"), [noise_image(112, 112)]),
        policy.chat.render(ask("Look: ", IMAGE, IMAGE), [first, second]),
        policy.chat.render(ask("Name a colour.")),
    ]


def gaps(policy: Policy, engine: RolloutEngine) -> list[float]:
    """For each prompt the largest difference of a sampled token's log-prob, in nats."""
    asked = [Request(id=str(k), prompt=p, seeds=SEEDS) for k, p in enumerate(prompts(policy))]
    answers = engine.generate(asked, SAMPLING)
    return [_gap(policy, r.prompt, pieces) for r, pieces in zip(asked, answers, strict=True)]


def _gap(policy: Policy, prompt: Prompt, pieces: tuple[Piece, ...]) -> float:
    mask = torch.zeros(len(pieces), max(len(piece.ids) for piece in pieces), dtype=torch.bool)
    sampled = torch.zeros(mask.shape)
    for row, piece in enumerate(pieces):
        mask[row, : len(piece.ids)] = True
        sampled[row, : len(piece.ids)] = torch.tensor(piece.logprobs)
    items = [PackItem(prompt=prompt, rows=tuple(piece.ids for piece in pieces))]
    with torch.no_grad():
        scores = packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
    return float((scores - sampled)[mask].abs().max())
