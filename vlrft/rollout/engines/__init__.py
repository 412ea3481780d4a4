"""Rollout engines: prompts in, sampled completions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from vlrft.config import RolloutConfig
from vlrft.policy.policy import Policy
from vlrft.schema import Piece, Prompt


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are chosen. `temperature` 0: the likeliest; `top_k` 0 and `top_p` 1: off."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()  # a completion ends with the first of these; its text leaves it out

    @staticmethod
    def of(config: RolloutConfig) -> Sampling:
        """What a config's rollout section says."""
        return Sampling(
            max_tokens=config.max_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            stop=config.stop,
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """A prompt to be completed once a seed."""

    id: str  # the sample's, for messages
    prompt: Prompt
    seeds: tuple[int, ...]


@runtime_checkable
class RolloutEngine(Protocol):
    """Completes prompts with the policy's present weights."""

    max_prompt_tokens: int | None
    """Longer prompts are refused; None: any is taken."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """A piece a seed, for each request in order. What a seed gives depends on its prompt and on nothing else.

        `Piece.ids` are exactly the sampled tokens, the ending one included; `logprobs` those of the distribution that
        was sampled from. Raises DataError, naming the request, for a prompt that is too long.
        """
        ...

    def finish(self) -> None:
        """Behind the last `generate` of a play: where ranks sample together, waits until all of them are done."""
        ...

    def load_weights(self, weights: Any, step: int) -> None:
        """Takes over the weights of optimisation step `step`; nothing to do where the module is shared."""
        ...


def build(config: RolloutConfig, policy: Policy) -> RolloutEngine:
    """The engine that shares the policy's module."""
    from vlrft.rollout.engines.hf import HfEngine

    return HfEngine(
        policy,
        max_rows=config.max_rows,
        max_cache_tokens=config.max_cache_tokens,
        max_prompt_tokens=config.max_prompt_tokens,
    )
