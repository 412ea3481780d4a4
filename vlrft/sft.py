"""Supervised warm-up through the same batch and engine: a group is one injected rollout, the sample's gold answer."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.chat import Chat
from vlrft.schema import Group, Piece, Rollout, Sample, Task
from vlrft.schema import Sequence as Row


def gold_groups(samples: Sequence[Sample], task: Task, chat: Chat) -> list[Group]:
    """A group of one a sample, with reward 1: its only rollout is the task's gold completion."""
    groups: list[Group] = []
    for sample in samples:
        text = task.gold(sample)
        piece = Piece(ids=chat.answer_ids(text), text=text, finish="stop")
        row = Row(
            prompt=chat.render(sample.messages, sample.images, name=sample.id), pieces=(piece,)
        )
        rollout = Rollout(sample=sample, sequences=(row,), reward=1.0, origin="injected")
        groups.append(Group(sample=sample, rollouts=(rollout,)))
    return groups
