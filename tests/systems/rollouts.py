"""The rollouts that all systems of the catalogue are tried on: ragged, some empty, groups with and without spread."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from vlrft.config import Config
from vlrft.policy.chat import Chat
from vlrft.schema import Group, Message, Piece, Prompt, Rollout, Turn
from vlrft.testing.small_policies import group_of

WEIGHTS = {"count": 1.0, "format": 0.1}
COMPONENTS = {"count", "format", "choice", "reasoning_format"}
SIGNALS = ("entropy", "certainty", "collision", "mean_logprob")
ANSWERS = ("7", "a blue one", "", "seven or 8", "x", "no", "4 5", "7 7")
REWARDS = ([1.0, 0.0, 1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 1.0, 0.0])
"""Of each group: two of them have none that differ, in `count`."""


class _Letters:
    """A chat whose tokens are the letters, for rollouts that no policy reads."""

    def render(self, messages: Sequence[Message]) -> Prompt:
        return Prompt(ids=tuple(str(messages[0].content[0]).encode()))

    def answer_ids(self, text: str) -> list[int]:
        return list(text.encode())


LETTERS = cast(Chat, _Letters())


def step_groups(
    chat: Chat, step: int, turns: int = 1, *, attempt: int = 0, prompts: Sequence[int] = range(4)
) -> list[Group]:
    """The groups of a step's prompts, by their numbers; `turns` of each rollout, with what an environment reports where there are
    several. At its next visit a prompt has another of the four groups."""
    groups = []
    for number in prompts:
        draw = random.Random(f"{number} {step} {attempt}")
        rewards = REWARDS[(number + step + attempt) % len(REWARDS)]
        texts = draw.sample(ANSWERS, len(rewards))
        group = group_of(chat, question(number), rewards, texts)
        rollouts = [_scored(r, turns, draw) for r in group.rollouts]
        groups.append(replace(group, rollouts=tuple(rollouts)))
    return groups


def question(number: int) -> str:
    """The text and the id of a prompt."""
    return f"question {number}"


def _scored(rollout: Rollout, turns: int, draw: random.Random) -> Rollout:
    right = rollout.reward
    scores: dict[str, float | None] = {
        "count": right,
        "format": float(right or draw.random() < 0.5),
        "choice": None,  # does not apply
        "reasoning_format": float(draw.randint(0, 2)),
        "text_overlap/bleu": draw.random(),
        "steps": float(draw.randint(0, 4)),
        "valid": float(draw.random() < 0.5),
    }
    (row,) = rollout.rows
    (piece,) = row.pieces
    rows = []
    for turn in range(turns):
        shown = Turn(shown=str(turn), anchor=turn, reward=right / turns) if turns > 1 else None
        rows.append(replace(row, pieces=(_with_numbers(piece, shown, draw),)))
    return replace(rollout, rows=tuple(rows), reward=_reward(scores, WEIGHTS), scores=scores)


def with_rewards(groups: Sequence[Group], weights: Mapping[str, float]) -> list[Group]:
    """The groups, rewarded by these weights of their scores."""
    return [
        replace(
            g,
            rollouts=tuple(replace(r, reward=_reward(r.scores, weights)) for r in g.rollouts),
        )
        for g in groups
    ]


def weights_of_rewards(config: Config) -> Mapping[str, float]:
    """Those of the config, where these rollouts have its rewards."""
    own = {name: reward.weight for name, reward in (config.task.rewards or {}).items()}
    return own if own and own.keys() <= COMPONENTS else WEIGHTS


def injected(group: Group) -> Rollout:
    """A gold answer to the group's sample: not sampled, with the highest reward."""
    first = group.rollouts[0]
    (row,) = first.rows
    piece = replace(row.pieces[0], logprobs=(), signals={})
    reward = sum(WEIGHTS.values())
    return replace(first, rows=(replace(row, pieces=(piece,)),), reward=reward, origin="injected")


def _reward(scores: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    return sum(weight * (scores[name] or 0.0) for name, weight in weights.items())


def _with_numbers(piece: Piece, turn: Turn | None, draw: random.Random) -> Piece:
    numbers = {name: tuple(draw.random() for _ in piece.ids) for name in SIGNALS}
    logprobs = tuple(-draw.random() for _ in piece.ids)
    return replace(piece, logprobs=logprobs, signals=numbers, turn=turn, finish="stop")
