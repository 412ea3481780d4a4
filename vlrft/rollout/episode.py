"""An episode: a sample that is being played, and the training rows that its turns add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vlrft.config import EnvConfig
from vlrft.envs import EnvFailure
from vlrft.policy.chat import Chat
from vlrft.schema import (
    ENVIRONMENT,
    EndReason,
    Observation,
    Piece,
    Prompt,
    Rollout,
    Sample,
    Step,
    TrainingRow,
    Turn,
)
from vlrft.schema.sample import part_text


@dataclass
class Episode:
    """A rollout in progress. It runs for as long as it has an observation."""

    sample: Sample
    seed: int
    handle: int  # of its environment
    keeps_turns: bool  # False for a task without an environment
    observation: Observation | None = None
    ended: EndReason = "done"
    rows: list[TrainingRow] = field(default_factory=list[TrainingRow])
    turns: int = 0  # that are done
    reward: float = 0.0
    scores: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    inserted: Piece | None = None  # the latest observation, where it continues the last row

    @property
    def grows(self) -> bool:
        """Whether the next turn's prompt may begin with this one's and its completion. After the first observation that is
        not known yet."""
        observation = self.observation
        return self.keeps_turns and (
            not self.rows or (observation is not None and observation.follows)
        )

    def prompt(self, chat: Chat) -> Prompt:
        """The prompt of the next turn: the whole context."""
        observation = self.observation
        assert observation is not None
        messages, images, videos = observation.messages, observation.images, observation.videos
        if not (observation.follows and self.rows):
            return chat.render(messages, images, videos, name=self.sample.id)
        row = self.rows[-1]
        last = row.pieces[-1].ids
        new = chat.follow(last, messages, images, videos, name=self.sample.id)
        text = observation_text(observation)
        self.inserted = Piece(ids=new.ids, text=text, sampled=False, images=new.images)
        ids = [i for piece in row.pieces for i in piece.ids]
        row_images = [image for piece in row.pieces for image in piece.images]
        return Prompt(
            ids=(*row.prompt.ids, *ids, *new.ids),
            images=(*row.prompt.images, *row_images, *new.images),
        )

    def advance(
        self, prompt: Prompt, piece: Piece, result: Step | EnvFailure, limits: EnvConfig
    ) -> None:
        """Adds one turn: the policy's `piece` after `prompt`, and its environment's `result`."""
        observation = self.observation
        assert observation is not None
        step = Step() if isinstance(result, EnvFailure) else result
        if self.keeps_turns:
            turn = Turn(
                shown=observation_text(observation),
                images=observation.images,
                anchor=observation.anchor,
                reward=step.reward,
                penalty=0.0 if step.valid else limits.invalid_penalty,
                valid=step.valid,
            )
            piece = replace(piece, turn=turn)
            self.reward -= turn.penalty
        if self.inserted is None:
            self.rows.append(TrainingRow(prompt=prompt, pieces=(piece,)))
        else:
            row = self.rows[-1]
            self.rows[-1] = replace(row, pieces=(*row.pieces, self.inserted, piece))
            self.inserted = None
        self.turns += 1
        self.reward += step.reward
        self.scores.update(step.scores)
        self.observation = step.observation
        if isinstance(result, EnvFailure):
            self.fail(result)
        elif self.observation is not None and self.turns >= limits.max_turns:
            self.end("turns")

    def end(self, reason: EndReason) -> None:
        """Ends the episode before its environment does."""
        self.observation, self.ended = None, reason

    def fail(self, failure: EnvFailure) -> None:
        """Ends the episode with the error of its environment."""
        self.errors[ENVIRONMENT] = failure.message
        self.end("error")

    def rollout(self, policy_step: int = 0, **fields: object) -> Rollout:
        """The finished rollout. `fields`: further fields of it, such as `origin`."""
        return Rollout(
            sample=self.sample,
            rows=tuple(self.rows),
            reward=self.reward,
            scores=self.scores,
            errors=self.errors,
            policy_step=policy_step,
            ended=self.ended,
            **fields,  # type: ignore[arg-type]
        )


def number_samples(samples: Sequence[Sample], numbers: Sequence[int]) -> list[Sample]:
    """The samples as the environments of these rollouts of their groups get them. Those of rollout 0 are the same objects."""
    numbers = numbers or [0] * len(samples)
    pairs = zip(samples, numbers, strict=True)
    return [replace(sample, rollout=k) if k else sample for sample, k in pairs]


def observation_text(observation: Observation) -> str:
    """The new part of an observation as text for logs and reports, images as <image>."""
    if observation.shown is not None:
        return observation.shown
    if not observation.messages:
        return ""
    return "".join(map(part_text, observation.messages[-1].content))
