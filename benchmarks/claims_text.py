"""A text problem for claims.py on one CPU thread: sort 2 to 6 digits, write them and EOS; easy and hard prompts mixed.

A two-layer causal transformer in plain PyTorch, supervised so briefly that there is room left for RL. A reward is 1 for
the exact answer, else 0. Nothing here is a loss of RL: that is `vlrft.algorithms.policy_loss` in claims.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

EOS, EQUALS, PAD, VOCABULARY = 10, 11, 12, 13
LONGEST, PROMPT, ANSWER = (
    6,
    7,
    8,
)  # digits; tokens of a prompt (padded on the left); most tokens of an answer


class Policy(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.place = nn.Parameter(0.02 * torch.randn(PROMPT + ANSWER, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.trunk = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        n = ids.shape[1]
        causal = torch.full((n, n), -torch.inf).triu(1)
        hidden = self.trunk(self.token(ids) + self.place[:n], mask=causal)
        logits: Tensor = self.head(hidden)
        return logits


@dataclass(frozen=True, kw_only=True)
class Problem:
    prompts: Tensor  # [N PROMPT]
    answers: Tensor  # [N ANSWER], PAD after EOS


def problem(count: int, generator: torch.Generator) -> Problem:
    prompts = torch.full((count, PROMPT), PAD)
    answers = torch.full((count, ANSWER), PAD)
    for i in range(count):
        n = int(torch.randint(2, LONGEST + 1, (1,), generator=generator))
        digits = torch.randint(0, 10, (n,), generator=generator)
        prompts[i, LONGEST - n : LONGEST] = digits
        answers[i, :n] = digits.sort().values
        answers[i, n] = EOS
    prompts[:, LONGEST] = EQUALS
    return Problem(prompts=prompts, answers=answers)


@torch.no_grad()
def play(policy: Policy, prompts: Tensor, generator: torch.Generator | None) -> Tensor:
    """Answers [B ANSWER], sampled at temperature 1, or greedy without a generator; PAD after EOS."""
    ids, done = prompts, torch.zeros(len(prompts), dtype=torch.bool)
    for _ in range(ANSWER):
        probabilities = policy(ids)[:, -1].softmax(-1)
        if generator is None:
            chosen = probabilities.argmax(-1)
        else:
            chosen = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
        chosen = chosen.masked_fill(done, PAD)
        ids = torch.cat([ids, chosen[:, None]], 1)
        done = done | (chosen == EOS)
    return ids[:, PROMPT:]


def score(answers: Tensor, gold: Tensor) -> Tensor:
    return (answers == gold).all(1).float()


def action_mask(answers: Tensor) -> Tensor:
    """Everything up to and with EOS; a PAD that the policy sampled itself is an action, too."""
    ended = (answers == EOS).long().cumsum(1)
    return (ended - (answers == EOS).long()) == 0


def measure(policy: Policy, prompts: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probs and entropy of each token of the answers, [B T] each."""
    logits = policy(torch.cat([prompts, answers], 1))[:, PROMPT - 1 : -1].log_softmax(-1)
    logprobs = logits.gather(-1, answers[..., None])[..., 0]
    return logprobs, -(logits.detach().exp() * logits.detach()).sum(-1)


def warm(seed: int, steps: int = 100) -> Policy:
    """The policy that all methods of a seed begin with."""
    torch.manual_seed(seed)
    policy, generator = Policy(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    for _ in range(steps):
        given = problem(64, generator)
        logprobs, _ = measure(policy, given.prompts, given.answers)
        loss = -logprobs[action_mask(given.answers)].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return policy
