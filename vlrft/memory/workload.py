"""The work of a step, and the batches in which a rollout engine samples it."""

from __future__ import annotations

from dataclasses import dataclass

from vlrft.memory.admission import batch_requests
from vlrft.memory.shapes import PromptSize


@dataclass(frozen=True, kw_only=True)
class RolloutWork:
    """The requests of one call of a rollout engine, and its limits."""

    prompts: tuple[PromptSize, ...]
    answers: int  # completions of each prompt
    tokens: int  # of the longest completion
    greedy: bool = False
    truncated: bool = False  # by top_p or top_k
    episodes: bool = False  # later turns may begin with the contexts of these
    max_rows: int = 512
    max_cache_tokens: int = 2**19


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """The work of one step of a stage, and of one call in an evaluation."""

    prompts: tuple[PromptSize, ...]  # of the step
    group: int  # completions of each prompt
    tokens: int  # of the longest completion
    micro_tokens: int  # update.max_tokens_per_micro_batch
    updates: int = 1  # optimiser steps, each over its own part of the prompts
    reference: bool = False  # the objective needs a reference's log-probs
    averaged: bool = False  # the reference is a moving average, kept in float32 where weights are in half precision
    rollout: RolloutWork | None = None  # None: the completions are gold answers
    evaluation: RolloutWork | None = None
    self_check: bool = False
    prefetch: bool = False  # the next step's images are processed during this one
    distinct_images: int | None = None  # of the run; None: unknown
    background: bool = False  # checkpoints are written in the background, from a copy


@dataclass(frozen=True)
class RequestBatch:
    """(prompt, completions) pairs that are sampled at once; prompts are padded to the longest."""

    parts: tuple[tuple[PromptSize, int], ...]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.parts)

    @property
    def longest(self) -> int:
        return max(prompt.tokens for prompt, _ in self.parts)

    @property
    def padded_rows(self) -> int:
        """Rows when every prompt has as many as the one with most."""
        return len(self.parts) * max(rows for _, rows in self.parts)

    @property
    def patches(self) -> int:
        return sum(prompt.patches for prompt, _ in self.parts)


def request_batches(work: RolloutWork) -> list[RequestBatch]:
    """The batches in which a rollout engine samples the work."""
    batches = batch_requests(
        [prompt.tokens for prompt in work.prompts],
        [work.answers] * len(work.prompts),
        steps=work.tokens,
        max_rows=work.max_rows,
        max_cache_tokens=work.max_cache_tokens,
    )
    return [RequestBatch(tuple((work.prompts[i], rows) for i, rows in batch)) for batch in batches]
