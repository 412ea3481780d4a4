"""How a step's work is cut: micro-batches of the update, portions of sampling. Tests hold both to `Batch.parts` and
`rollout.portions`, which cut the real thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlrft.memory.shapes import MicroBatch, PackedPrompt, PromptSize

PREFILL_TOKENS = 2**16  # of `rollout.portions`


@dataclass(frozen=True, kw_only=True)
class RolloutWork:
    """What an engine is asked for at once, and its bounds."""

    prompts: tuple[PromptSize, ...]
    answers: int  # completions a prompt
    tokens: int  # the longest completion
    greedy: bool = False
    truncated: bool = False  # top_p or top_k
    max_rows: int = 512
    max_cache_tokens: int = 2**19


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """What a stage does in a step, and what an evaluation does at once."""

    prompts: tuple[PromptSize, ...]  # a step's
    group: int  # completions a prompt
    tokens: int  # the longest completion
    micro_tokens: int  # update.max_tokens_per_micro_batch
    updates: int = 1  # optimiser steps over disjoint parts of the prompts
    reference: bool = False  # the method reads a reference's log-probs
    rollout: RolloutWork | None = None  # None: the answers are given
    evaluation: RolloutWork | None = None
    self_check: bool = False
    ahead: bool = False  # threads process the images of the step to come
    images: int | None = None  # distinct ones of the run, as far as they are known


@dataclass(frozen=True)
class RequestBatch:
    """What is sampled at once: (prompt, completions) pairs; prompts are padded to the longest."""

    parts: tuple[tuple[PromptSize, int], ...]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.parts)

    @property
    def longest(self) -> int:
        return max(prompt.tokens for prompt, _ in self.parts)

    @property
    def spread(self) -> int:
        """Places of rows where every prompt has as many as the one with most."""
        return len(self.parts) * max(rows for _, rows in self.parts)

    @property
    def patches(self) -> int:
        return sum(prompt.patches for prompt, _ in self.parts)


def micro_batches(
    prompts: Sequence[PromptSize], group: int, tokens: int, budget: int
) -> list[MicroBatch]:
    """The parts of an optimiser step: items, short ones first, while items x longest stays within the budget.

    A group whose prompt and completions are more than the budget is cut; each part carries the prompt.
    """
    items: list[PackedPrompt] = []
    for prompt in prompts:
        most = max((budget - prompt.tokens) // tokens, 1)
        whole, rest = divmod(group, most)
        sizes = [most] * whole + ([rest] if rest else [])
        items += [PackedPrompt(prompt=prompt, rows=(tokens,) * size) for size in sizes]
    found: list[MicroBatch] = []
    part: list[PackedPrompt] = []
    for item in sorted(items, key=_budgeted):
        if part and (len(part) + 1) * max(*map(_budgeted, part), _budgeted(item)) > budget:
            found.append(MicroBatch(part))
            part = []
        part = [*part, item]
    return [*found, MicroBatch(part)] if part else found


def _budgeted(item: PackedPrompt) -> int:
    """Tokens that count against the budget: the last of each completion too."""
    return item.prompt.tokens + sum(item.rows)


def portions(asked: RolloutWork) -> list[RequestBatch]:
    """What is sampled at once, prompts of most tokens first, within bounds of rows, keys and prefilled tokens."""
    found: list[RequestBatch] = []
    parts: list[tuple[PromptSize, int]] = []
    rows, longest = 0, 0
    for prompt in sorted(asked.prompts, key=lambda p: -p.tokens):
        left = asked.answers
        while left:
            longest = longest if parts else prompt.tokens
            keys = (len(parts) + 1) * longest
            room = min(
                asked.max_rows - rows, (asked.max_cache_tokens - keys) // asked.tokens - rows
            )
            if parts and not (keys <= PREFILL_TOKENS and room >= left):
                found.append(RequestBatch(tuple(parts)))
                parts, rows = [], 0
                continue
            taken = min(left, max(room, 1))
            parts.append((prompt, taken))
            rows, left = rows + taken, left - taken
    return [*found, RequestBatch(tuple(parts))] if parts else found
