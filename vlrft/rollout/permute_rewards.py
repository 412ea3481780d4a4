"""`permute_rewards`: a control that must not learn."""

from __future__ import annotations

import random
from dataclasses import replace

from vlrft.schema import Group, Piece, Rollout, TrainingRow


def permute_rewards(group: Group, seed: int) -> Group:
    """The group with its rewards dealt to other rollouts: a control that must not learn. Of a play with turns the last one
    earns all of it."""
    order = random.Random(seed).sample(range(len(group.rollouts)), len(group.rollouts))
    given = [group.rollouts[i] for i in order]
    rollouts = tuple(
        replace(
            r,
            reward=g.reward,
            scores=g.scores,
            errors=g.errors,
            rows=_earning(r, g.reward) if r.turns else r.rows,
        )
        for r, g in zip(group.rollouts, given, strict=True)
    )
    return replace(group, rollouts=rollouts)


def _earning(rollout: Rollout, reward: float) -> tuple[TrainingRow, ...]:
    """Its rows when its last turn earns the reward, and no other earns or costs anything."""
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
