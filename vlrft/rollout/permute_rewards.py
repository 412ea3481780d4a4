"""`permute_rewards`: a control experiment. A run whose rewards are permuted must not learn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.schema import Group, Piece, Rollout, TrainingRow


def permute_step(groups: Sequence[Group], seed_of: Callable[[str], int]) -> list[Group]:
    """The groups of a step, each with its rewards permuted among its rollouts. Groups of one rollout exchange rewards with
    each other. `seed_of`: the seed for a name."""
    out = [permute_rewards(group, seed_of(group.sample.id)) for group in groups]
    single = [k for k, group in enumerate(groups) if len(group.rollouts) == 1]
    rollouts = _permute([groups[k].rollouts[0] for k in single], seed_of("groups of one"))
    for k, rollout in zip(single, rollouts, strict=True):
        out[k] = replace(groups[k], rollouts=(rollout,))
    return out


def permute_rewards(group: Group, seed: int) -> Group:
    """The group with its rewards permuted among its rollouts. In an episode the last turn gets the whole reward."""
    return replace(group, rollouts=_permute(group.rollouts, seed))


def _permute(rollouts: Sequence[Rollout], seed: int) -> tuple[Rollout, ...]:
    sources = random.Random(seed).sample(rollouts, len(rollouts))
    return tuple(
        replace(
            rollout,
            reward=source.reward,
            scores=source.scores,
            imputed=source.imputed,
            errors=source.errors,
            rows=_reward_last_turn(rollout, source.reward) if rollout.turns else rollout.rows,
        )
        for rollout, source in zip(rollouts, sources, strict=True)
    )


def _reward_last_turn(rollout: Rollout, reward: float) -> tuple[TrainingRow, ...]:
    """The rollout's rows with the reward at its last turn, and neither reward nor penalty at the others."""
    left = len(rollout.turns)
    rows: list[TrainingRow] = []
    for row in rollout.rows:
        pieces: list[Piece] = []
        for piece in row.pieces:
            if piece.turn is not None:
                left -= 1
                turn = replace(piece.turn, reward=0.0 if left else reward, penalty=0.0)
                piece = replace(piece, turn=turn)
            pieces.append(piece)
        rows.append(replace(row, pieces=tuple(pieces)))
    return tuple(rows)
