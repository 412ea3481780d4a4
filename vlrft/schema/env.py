"""The protocol of an environment: its observations, and the result of a step."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vlrft.schema.sample import Message

if TYPE_CHECKING:
    from PIL.Image import Image

    from vlrft.schema.frames import Frames


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The next input of the policy.

    The messages are the whole conversation, rebuilt (each turn is then a separate training row), or with `follows`
    only the part after the policy's last answer (all turns are then one row, in which the observations are masked).
    """

    messages: tuple[Message, ...]
    images: tuple[Image, ...] = ()
    videos: tuple[Frames, ...] = ()
    follows: bool = False
    shown: str | None = None  # the new part as text, for logs and reports; None: the last message
    anchor: Hashable = None  # a key; turns with equal keys are compared by step-level estimators


@dataclass(frozen=True, kw_only=True)
class Step:
    """An environment's response to one turn; `observation` is None when the episode is over."""

    observation: Observation | None = None
    reward: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Named scores of the episode so far; a later step's value replaces an earlier one of the same name."""
    valid: bool = True
    """Whether an action could be read in the policy's text."""

    @property
    def done(self) -> bool:
        return self.observation is None


@runtime_checkable
class Env(Protocol):
    """An environment, single-use: built for one rollout, played once, closed.

    An exception that it raises ends its own episode, not the run.
    """

    def start(self) -> Observation:
        """The first observation. Called once, before any `step`."""
        ...

    def step(self, text: str) -> Step:
        """Acts on the policy's text. Not called again after a step that is `done`."""
        ...

    def close(self) -> None:
        """Frees what the environment holds. Called once, also after an error."""
        ...
