"""Rollouts: answers to a sample, as they are sampled and trained on.

One sample has `G` rollouts, which are a group; each rollout is one or more training rows:

    Sample(id="digits/train/7", messages=(Message(role="user", content=(IMAGE, "Which digit is this?")),), …)
    TrainingRow(prompt=Prompt(ids=P0), pieces=(Piece(ids=A0),))                         single turn
    TrainingRow(prompt=Prompt(ids=P0), pieces=(A0 sampled, E0 inserted, A1 sampled))    growing context
    TrainingRow(prompt=Prompt(ids=P0), …), TrainingRow(prompt=Prompt(ids=P1), …)        rebuilt context, a row a turn

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
class VideoText:
    """A video as a prompt has it: text, and one or more equally long runs of tokens, one a feature."""

    text: str
    """In place of the video in a rendered conversation, with one token for each run."""
    runs: int
    interval: float
    """Seconds from one row of the grid's time to the next."""


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """An image or a video as the model takes it."""

    key: str  # hash of the content and the processor's settings
    tokens: int  # image tokens in a prompt, one a feature
    grid: tuple[int, ...]  # layout of the patches, such as time, height, width
    values: Any  # torch.Tensor f32 [patches, channels · patch size]
    video: VideoText | None = None  # None: an image


PromptKey = tuple[tuple[int, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A rendered conversation: token ids with placeholders, and the images and videos for them, in their order."""

    ids: tuple[int, ...]  # [P]
    images: tuple[Pixels, ...] = ()

    @property
    def image_count(self) -> int:
        """The number of images, videos not counted."""
        return sum(image.video is None for image in self.images)

    @property
    def key(self) -> PromptKey:
        """Equal for prompts that are the same input to the model, which may therefore share a prefix."""
        return self.ids, tuple(image.key for image in self.images)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of an episode: the observation that the policy answered, and the environment's response."""

    shown: str = ""  # the observation as text
    images: tuple[Image, ...] = ()  # and its images
    anchor: Hashable = None  # the key by which a step-level estimator groups turns
    reward: float = 0.0
    penalty: float = 0.0  # of an invalid action; it is subtracted from the rollout's reward
    valid: bool = True  # whether the environment could read an action


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A run of tokens after the prompt: sampled by the policy (trained on), or inserted by the environment."""

    ids: tuple[int, ...]  # [T]
    text: str
    sampled: bool = True
    logprobs: tuple[float, ...] = ()  # [T] as sampled; empty when the tokens were not sampled here
    finish: Literal["stop", "length"] | None = None
    images: tuple[Pixels, ...] = ()  # of an inserted piece
    turn: Turn | None = None  # of a sampled piece in an episode
    policy_steps: tuple[int, ...] = ()
    """[T] of a sampled piece: the run's step after which the weights were that sampled each token; empty where that is the
    rollout's `policy_step` for all of them."""
    signals: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Name -> a number for each token [T], of the distribution at its place; only those that `Sampling.signals` asked for."""


@dataclass(frozen=True, kw_only=True)
class TrainingRow:
    """One training row: a prompt and the pieces after it."""

    prompt: Prompt
    pieces: tuple[Piece, ...]


ENVIRONMENT = (
    "environment"  # among a rollout's errors, the key of the error that ended its episode early
)
EndReason = Literal["done", "turns", "tokens", "error"]
"""Why an episode ended: the environment was done, the limit of turns was reached, the next prompt would have been too
long, or the environment failed."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One finished answer to a sample, or episode of it. `reward` is the weighted sum of the named `scores`."""

    sample: Sample
    rows: tuple[TrainingRow, ...]
    reward: float = 0.0
    scores: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    imputed: Mapping[str, float] = field(default_factory=dict[str, float])
    """Name of a score that is missing because its reward failed with `on_error: none` -> the mean of the group's other
    rollouts, which `reward` counts in its place."""
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a failed reward, whose score is 0.0 or None -> its error; under ENVIRONMENT, the error that ended the episode."""
    retries: Mapping[str, int] = field(default_factory=dict[str, int])
    """Name of a reward -> how often its call was made again."""
    policy_step: int = 0
    """The run's step after which the weights were that sampled the tokens of pieces without `policy_steps`."""
    origin: Literal["fresh", "replay", "injected"] = "fresh"
    ended: EndReason = "done"

    @property
    def sampled_pieces(self) -> Iterator[Piece]:
        """The pieces that the policy sampled, in the order of the turns."""
        return (p for s in self.rows for p in s.pieces if p.sampled)

    @property
    def text(self) -> str:
        """The policy's text, turns joined by newlines."""
        return "\n".join(p.text for p in self.sampled_pieces)

    @property
    def tokens(self) -> int:
        """The number of action tokens, which are those that the policy sampled."""
        return sum(len(p.ids) for p in self.sampled_pieces)

    @property
    def policy_steps(self) -> tuple[int, ...]:
        """Of each action token, the run's step after which the weights were that sampled it."""
        pieces = self.sampled_pieces
        return tuple(
            step for p in pieces for step in p.policy_steps or (self.policy_step,) * len(p.ids)
        )

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of an episode; empty for a task without an environment."""
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
    rank: int = 0  # of the process that sampled them and trains on them

    @property
    def rewards(self) -> tuple[float, ...]:
        """The reward of each rollout, [G]."""
        return tuple(r.reward for r in self.rollouts)
