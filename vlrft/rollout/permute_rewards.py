"""`permute_rewards`: a control that must not learn."""

from __future__ import annotations

import random
from dataclasses import replace

from vlrft.schema import Group, Piece, Rollout
from vlrft.schema import Sequence as Row


def permuted(group: Group, seed: int) -> Group:
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
            sequences=_earning(r, g.reward) if r.turns else r.sequences,
        )
        for r, g in zip(group.rollouts, given, strict=True)
    )
    return replace(group, rollouts=rollouts)


def _earning(rollout: Rollout, reward: float) -> tuple[Row, ...]:
    """Its rows when its last turn earns the reward, and no other earns or costs anything."""
    left = len(rollout.turns)
    rows: list[Row] = []
    for row in rollout.sequences:
        pieces: list[Piece] = []
        for piece in row.pieces:
            if piece.turn is not None:
                left -= 1
                turn = replace(piece.turn, reward=0.0 if left else reward, penalty=0.0)
                piece = replace(piece, turn=turn)
            pieces.append(piece)
        rows.append(replace(row, pieces=tuple(pieces)))
    return tuple(rows)
