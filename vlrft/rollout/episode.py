"""A rollout in the making: what was shown, what was said, and the training rows that come of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vlrft.config import EnvConfig
from vlrft.envs import EnvFailure
from vlrft.policy.chat import Chat
from vlrft.schema import (
    ENVIRONMENT,
    IMAGE,
    EndReason,
    Observation,
    Piece,
    Prompt,
    Rollout,
    Sample,
    Slot,
    Step,
    TrainingRow,
    Turn,
)


@dataclass
class Episode:
    """One play of a sample. It goes on while it has an observation."""

    sample: Sample
    seed: int
    handle: int  # of its environment
    keeps_turns: bool  # whether an environment answers, or the sample is all there is
    observation: Observation | None = None
    ended: EndReason = "done"
    rows: list[TrainingRow] = field(default_factory=list[TrainingRow])
    said: int = 0  # turns
    reward: float = 0.0
    scores: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    added: Piece | None = None  # what the latest observation adds to the last row

    def prompt(self, chat: Chat) -> Prompt:
        """All that the policy reads before it says the next thing."""
        seen = self.observation
        assert seen is not None
        if not (seen.follows and self.rows):
            return chat.render(seen.messages, seen.images, name=self.sample.id)
        row = self.rows[-1]
        new = chat.follow(row.pieces[-1].ids, seen.messages, seen.images, name=self.sample.id)
        self.added = Piece(
            ids=new.ids, text=words(seen), sampled=False, images=new.images
        )  # masked in training
        before = [i for piece in row.pieces for i in piece.ids]
        images = [image for piece in row.pieces for image in piece.images]
        return Prompt(
            ids=(*row.prompt.ids, *before, *new.ids),
            images=(*row.prompt.images, *images, *new.images),
        )

    def take(
        self, prompt: Prompt, piece: Piece, answer: Step | EnvFailure, limits: EnvConfig
    ) -> None:
        """Goes on by what the policy said to `prompt`, and what its environment answered."""
        seen = self.observation
        assert seen is not None
        step = Step() if isinstance(answer, EnvFailure) else answer
        if self.keeps_turns:
            turn = Turn(
                shown=words(seen),
                images=seen.images,
                anchor=seen.anchor,
                reward=step.reward,
                penalty=0.0 if step.valid else limits.invalid_penalty,
                valid=step.valid,
            )
            piece = replace(piece, turn=turn)
            self.reward -= turn.penalty
        if self.added is None:
            self.rows.append(TrainingRow(prompt=prompt, pieces=(piece,)))
        else:
            row = self.rows[-1]
            self.rows[-1] = replace(row, pieces=(*row.pieces, self.added, piece))
            self.added = None
        self.said += 1
        self.reward += step.reward
        self.scores.update(step.scores)
        self.observation = step.observation
        if isinstance(answer, EnvFailure):
            self.fail(answer)
        elif self.observation is not None and self.said >= limits.max_turns:
            self.end("turns")

    def end(self, why: EndReason) -> None:
        """It goes on no more."""
        self.observation, self.ended = None, why

    def fail(self, failed: EnvFailure) -> None:
        """Its environment cannot go on."""
        self.errors[ENVIRONMENT] = failed.message
        self.end("error")

    def rollout(self, policy_step: int = 0, **known: object) -> Rollout:
        """`known`: what else the rollout holds, such as its origin."""
        return Rollout(
            sample=self.sample,
            rows=tuple(self.rows),
            reward=self.reward,
            scores=self.scores,
            errors=self.errors,
            policy_step=policy_step,
            ended=self.ended,
            **known,  # type: ignore[arg-type]
        )


def words(seen: Observation) -> str:
    """The new part of an observation for people, images as <image>."""
    if seen.shown is not None:
        return seen.shown
    return "".join(map(_word, seen.messages[-1].content)) if seen.messages else ""


def _word(part: str | Slot) -> str:
    return "<image>" if part is IMAGE else str(part)
