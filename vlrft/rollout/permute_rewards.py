"""`permute_rewards`: a control experiment. A run whose rewards are permuted within each group must not learn."""

from __future__ import annotations

import random
from dataclasses import replace

from vlrft.schema import Group, Piece, Rollout, TrainingRow


def permute_rewards(group: Group, seed: int) -> Group:
    """The group with its rewards permuted among its rollouts. In an episode the last turn gets the whole reward."""
    order = random.Random(seed).sample(range(len(group.rollouts)), len(group.rollouts))
    sources = [group.rollouts[i] for i in order]
    rollouts = tuple(
        replace(
            rollout,
            reward=source.reward,
            scores=source.scores,
            errors=source.errors,
            rows=_reward_last_turn(rollout, source.reward) if rollout.turns else rollout.rows,
        )
        for rollout, source in zip(group.rollouts, sources, strict=True)
    )
    return replace(group, rollouts=rollouts)


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
