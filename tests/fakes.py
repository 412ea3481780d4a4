"""Small stand-ins that tests share."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.schema import Group, Message, Piece, Prompt, Rollout, Sample
from vlrft.schema import Sequence as Row


def sample(name: str, answer: object = None, /, **tags: str) -> Sample:
    """A text-only sample that asks its own name."""
    return Sample(
        id=name,
        messages=(Message(role="user", content=(name,)),),
        answer=answer,
        tags=tags,
    )


def group(
    name: str, rewards: Sequence[float], tokens: Sequence[Sequence[int]] | None = None
) -> Group:
    """A group with the given rewards; rollout i has the tokens [i + 1] unless given."""
    ids = tokens or [[i + 1] for i in range(len(rewards))]
    asked = sample(name)
    rollouts = tuple(
        Rollout(
            sample=asked,
            sequences=(
                Row(
                    prompt=Prompt(ids=tuple(name.encode())),
                    pieces=(Piece(ids=tuple(own), text="", logprobs=(-1.0,) * len(own)),),
                ),
            ),
            reward=reward,
        )
        for reward, own in zip(rewards, ids, strict=True)
    )
    return Group(sample=asked, rollouts=rollouts)
