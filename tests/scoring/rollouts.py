"""Rollouts of two prompts without a policy, and a function as the only reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vlrft.schema import Message, Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.scoring.weighted import WeightedReward


def sample(name: str, answer: str, **tags: str) -> Sample:
    return Sample(
        id=name, messages=(Message(role="user", content=(name,)),), answer=answer, tags=tags
    )


def group(question: Sample, *answers: str) -> list[Rollout]:
    def rollout(text: str) -> Rollout:
        ids = tuple(text.encode())
        pieces = (Piece(ids=ids, text=text), Piece(ids=(1,), text="seen", sampled=False))
        return Rollout(sample=question, rows=(TrainingRow(prompt=Prompt(ids=(1,)), pieces=pieces),))

    return [rollout(text) for text in answers]


GROUPS = [group(sample("a", "x"), "x", "yy"), group(sample("b", "yy"), "x", "yy", "yyy")]


def flat(groups: Sequence[Sequence[Rollout]]) -> list[Rollout]:
    return [rollout for group in groups for rollout in group]


def as_rewards(function: Any, **settings: Any) -> list[WeightedReward]:
    return [WeightedReward(name="mine", weight=1.0, function=function, **settings)]
