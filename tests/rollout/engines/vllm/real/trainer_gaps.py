"""Whether a server of the real vLLM samples from the trainer's policy. Log-probs are always compared with the trainer's: vLLM compared with
itself does not show a weight that stays old."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vlrft.policy.chat import Chat
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.schema import IMAGE, Piece
from vlrft.testing.small_policies import ask, noise_image

BOUND = 1e-5  # nats, of every token


def requests(chat: Chat, seeds: Sequence[int] = (0, 1)) -> list[Request]:
    """Prompts with one image, two of different sizes, and none."""
    prompts = [
        chat.render(ask(IMAGE, "How many?"), [noise_image(112, 112)]),
        chat.render(
            ask("Look: ", IMAGE, IMAGE), [noise_image(112, 84, 1), noise_image(56, 140, 2)]
        ),
        chat.render(ask("Name a colour.")),
    ]
    return [
        Request(id=str(k), prompt=p, seeds=tuple(100 * k + s for s in seeds))
        for k, p in enumerate(prompts)
    ]


def trainer_gaps(
    policy: Policy, asked: Sequence[Request], pieces: Sequence[Sequence[Piece]], temperature: float
) -> list[list[float]]:
    """For each completion, how far each token's log-prob is from the one that an update computes."""
    items = [
        PackItem(prompt=request.prompt, rows=tuple(piece.ids for piece in group))
        for request, group in zip(asked, pieces, strict=True)
    ]
    rows = [piece for group in pieces for piece in group]
    mask = torch.zeros(len(rows), max(len(piece.ids) for piece in rows), dtype=torch.bool)
    for row, piece in enumerate(rows):
        mask[row, : len(piece.ids)] = True
    with torch.no_grad():
        scores = packed_logprobs(policy, items, mask=mask, temperature=temperature).logprobs
    return [
        [abs(float(ours) - theirs) for ours, theirs in zip(row, piece.logprobs, strict=False)]
        for row, piece in zip(scores, rows, strict=True)
    ]


def largest_gap(
    policy: Policy, asked: Sequence[Request], pieces: Sequence[Sequence[Piece]], temperature: float
) -> float:
    return max(map(max, trainer_gaps(policy, asked, pieces, temperature)))


def assert_equal(policy: Policy, engine: VllmEngine, temperature: float = 1.0) -> None:
    """The engine samples from the policy as it is now."""
    asked = requests(policy.chat)
    pieces = engine.generate(asked, Sampling(max_tokens=24, temperature=temperature))
    assert largest_gap(policy, asked, pieces, temperature) < BOUND


def perturb(policy: Policy, seed: int, part: str = "") -> None:
    """Changes the trained parameters whose names contain `part`, as a large update does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if parameter.requires_grad and part in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.add_(noise * (0.05 * parameter.abs().mean() + 0.01))
