"""An environment: what it shows, what it makes of an answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vlrft.schema.sample import Message

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What an environment shows the policy.

    The messages are the whole conversation, made anew (each turn is a training row of its own), or with `follows` only
    what comes behind the policy's last answer (all turns are one row, what was shown is masked).
    """

    messages: tuple[Message, ...]
    images: tuple[Image, ...] = ()
    follows: bool = False
    shown: str | None = None  # the new part in words, for people; None: the last message
    anchor: Hashable = None  # equal for turns that a step-level estimator compares


@dataclass(frozen=True, kw_only=True)
class Step:
    """An environment's answer to one turn; `observation` is None when the play is over."""

    observation: Observation | None = None
    reward: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of the play so far; the latest value of each name stands."""
    valid: bool = True
    """Whether an action could be read in what the policy said."""

    @property
    def done(self) -> bool:
        return self.observation is None


@runtime_checkable
class Env(Protocol):
    """Single-use: built for one rollout, played once, closed. What it raises ends its own play, not the run."""

    def start(self) -> Observation: ...

    def step(self, text: str) -> Step: ...

    def close(self) -> None:
        """Called once, also after an error."""
        ...
