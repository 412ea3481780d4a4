"""Answers to a question, as they are sampled and trained on.

One sample is played `G` times; each rollout is one or more training rows (`TrainingRow`); a group is the rollouts of one
sample:

    Sample(id="digits/train/7", messages=(Message(role="user", content=(IMAGE, "Which digit is this?")),), …)
    Sequence(prompt_ids=P0 [P], pieces=(Piece(ids=A0, sampled=True),))                       single turn
    Sequence(prompt_ids=P0 [P], pieces=(A0 sampled, E0 inserted, A1 sampled))                growing context

Axes: G rollouts of one sample, P prompt tokens, T tokens, K turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from vlrft.schema.sample import Sample

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """An image as the vision tower takes it."""

    key: str  # hash of the content and the processor's settings
    grid: tuple[int, int, int]  # patches in time, height, width
    values: Any  # torch.Tensor f32 [grid.prod(), channels · patch size]


PromptKey = tuple[tuple[int, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A rendered conversation: token ids with image placeholders, and the images they stand for."""

    ids: tuple[int, ...]  # [P]
    images: tuple[Pixels, ...] = ()

    @property
    def key(self) -> PromptKey:
        """Equal for prompts that look the same to the model: those that may share a prefix."""
        return self.ids, tuple(image.key for image in self.images)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What an environment made of one thing that the policy said."""

    shown: str = ""  # the observation that it answered, in words
    images: tuple[Image, ...] = ()  # and in pictures
    anchor: Hashable = None  # what a step-level estimator groups turns by
    reward: float = 0.0
    penalty: float = 0.0  # for what was no valid action; it is taken off the rollout's reward
    valid: bool = True  # whether the environment could read an action


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of tokens behind the prompt: sampled by the policy (trained on), or inserted by the environment."""

    ids: tuple[int, ...]  # [T]
    text: str
    sampled: bool = True
    logprobs: tuple[float, ...] = ()  # [T] as sampled; empty when the tokens were not sampled here
    finish: Literal["stop", "length"] | None = None
    images: tuple[Pixels, ...] = ()  # that stand in an inserted piece
    turn: Turn | None = None  # of a sampled piece, where an environment answered


@dataclass(frozen=True, kw_only=True)
class TrainingRow:
    """One training row."""

    prompt: Prompt
    pieces: tuple[Piece, ...]


ENVIRONMENT = "environment"  # names, among a rollout's errors, what ended its play before its time
EndReason = Literal["done", "turns", "tokens", "error"]
"""How a play ended: by itself, at the limit of turns, where the next prompt would be too long, or as its environment
failed."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One play of a sample. `scores` keeps the named reward components apart; `reward` is their weighted sum."""

    sample: Sample
    rows: tuple[TrainingRow, ...]
    reward: float = 0.0
    scores: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of rewards that count 0.0, by their names; under ENVIRONMENT what ended the play before its time."""
    policy_step: int = 0
    origin: Literal["fresh", "replay", "injected"] = "fresh"
    ended: EndReason = "done"

    @property
    def sampled_pieces(self) -> Iterator[Piece]:
        """What the policy sampled, turn by turn."""
        return (p for s in self.rows for p in s.pieces if p.sampled)

    @property
    def text(self) -> str:
        """The policy's own words, turns joined by newlines."""
        return "\n".join(p.text for p in self.sampled_pieces)

    @property
    def tokens(self) -> int:
        """Action tokens: those the policy sampled."""
        return sum(len(p.ids) for p in self.sampled_pieces)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What the environment made of each; empty where it answers nothing, as in a single turn."""
        return tuple(p.turn for p in self.sampled_pieces if p.turn is not None)

    @property
    def truncated(self) -> bool:
        """Whether any turn ran into the token limit."""
        return any(p.finish == "length" for p in self.sampled_pieces)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rollouts of one sample."""

    sample: Sample
    rollouts: tuple[Rollout, ...]  # [G]
    rank: int = 0  # of the process that played them and trains on them

    @property
    def rewards(self) -> tuple[float, ...]:
        return tuple(r.reward for r in self.rollouts)
