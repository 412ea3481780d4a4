"""A text task for one CPU thread: write 2 to 4 digits and EOS in the order that the prompt asks for.

The order is as given, reversed, ascending or descending. Warm-up answers are in a random order: the policy learns to
write all four orders, but not which of them is asked for; that is left to RL. The reward is 1 for the exact answer, else 0.
The policy is a two-layer causal transformer that samples with a KV cache. The RL losses are in train.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

EOS, PAD, FIRST_ORDER = 10, 11, 12
ORDERS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda digits: digits,
    lambda digits: digits.flip(0),
    lambda digits: digits.sort().values,
    lambda digits: digits.sort(descending=True).values,
)
VOCABULARY = FIRST_ORDER + len(ORDERS)
SHORTEST, LONGEST = 2, 4  # digits to sort
PROMPT, ANSWER = LONGEST + 1, LONGEST + 1  # tokens: padded on the left and =; digits and EOS
WIDTH, HEADS, LAYERS = 32, 2, 2
WARM_STEPS, WARM_PROMPTS, WARM_RATE = 800, 64, 2e-3

Cache = tuple[Tensor, Tensor]  # keys and values [B HEADS T WIDTH/HEADS]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        """The hidden states after this block, and its KV cache; with `past`, x is one token."""
        rows, tokens, _ = x.shape
        split = self.qkv(self.before(x)).view(rows, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = split.unbind(0)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, tokens, WIDTH))
        return x + self.down(functional.gelu(self.up(self.between(x)))), (k, v)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(PROMPT + ANSWER, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor, past: list[Cache] | None = None) -> tuple[Tensor, list[Cache]]:
        """Logits [B T V] of `ids` [B T], which follow `past`, and the KV caches extended by them."""
        start = 0 if past is None else past[0][0].shape[2]
        hidden, caches = self.token(ids) + self.place[start : start + ids.shape[1]], []
        for i, block in enumerate(self.blocks):
            hidden, cache = block(hidden, None if past is None else past[i])
            caches.append(cache)
        return self.head(self.norm(hidden)), caches


@dataclass(frozen=True, kw_only=True)
class Problem:
    prompts: Tensor  # [N PROMPT]
    answers: Tensor  # [N ANSWER], PAD after EOS


def problem(count: int, generator: torch.Generator, *, ordered: bool = True) -> Problem:
    """Prompts of digits and an order, with their answers; not `ordered`: each answer is in a random order."""
    prompts = torch.full((count, PROMPT), PAD)
    answers = torch.full((count, ANSWER), PAD)
    for i in range(count):
        n = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator))
        asked, other = torch.randint(0, len(ORDERS), (2,), generator=generator).tolist()
        digits = torch.randint(0, 10, (n,), generator=generator)
        prompts[i, LONGEST - n : LONGEST] = digits
        prompts[i, LONGEST] = FIRST_ORDER + asked
        answers[i, :n] = ORDERS[asked if ordered else other](digits)
        answers[i, n] = EOS
    return Problem(prompts=prompts, answers=answers)


@torch.no_grad()
def play(policy: Policy, prompts: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Sample answers [B·count ANSWER] at temperature 1, or greedily without a generator; PAD after EOS."""
    logits, past = policy(prompts)
    logits = logits[:, -1].repeat_interleave(count, 0)
    past = [(k.repeat_interleave(count, 0), v.repeat_interleave(count, 0)) for k, v in past]
    done, tokens = torch.zeros(len(logits), dtype=torch.bool), []
    for t in range(ANSWER):
        if generator is None:
            ids = logits.argmax(-1)
        else:
            ids = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        ids = ids.masked_fill(done, PAD)
        tokens.append(ids)
        done = done | (ids == EOS)
        if t + 1 < ANSWER:
            logits, past = policy(ids[:, None], past)
            logits = logits[:, -1]
    return torch.stack(tokens, 1)


def score(answers: Tensor, gold: Tensor) -> Tensor:
    return (answers == gold).all(1).float()


def action_mask(answers: Tensor) -> Tensor:
    """True up to and including EOS; a PAD that the policy sampled itself is also an action."""
    ended = (answers == EOS).long()
    return ended.cumsum(1) - ended == 0


def token_logprobs(policy: Policy, prompts: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probs and entropy of each token of the answers, [B T] each."""
    logits = policy(torch.cat([prompts, answers[:, :-1]], 1))[0][:, PROMPT - 1 :].log_softmax(-1)
    logprobs = logits.gather(-1, answers[..., None])[..., 0]
    frozen = logits.detach()
    return logprobs, -(frozen.exp() * frozen).sum(-1)


def warm_up(seed: int) -> Policy:
    """Train the initial policy of all arms of a seed."""
    torch.manual_seed(seed)
    policy, generator = Policy(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=WARM_RATE)
    for _ in range(WARM_STEPS):
        batch = problem(WARM_PROMPTS, generator, ordered=False)
        logprobs, _ = token_logprobs(policy, batch.prompts, batch.answers)
        loss = -logprobs[action_mask(batch.answers)].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return policy
