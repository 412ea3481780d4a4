"""Samples, rollouts and records as rows of the jsonl files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vlrft.distributed.ranks import Ranks
from vlrft.evaluation.evaluate import mean_score
from vlrft.reporting.files import Pictures
from vlrft.schema import IMAGE, Group, Record, Rollout, Sample, Turn
from vlrft.scoring.graders import STRICT

PICTURED_RECORDS = 40  # evaluation records of a kind whose images are kept for the report


def rollout_rows(
    groups: Sequence[Group],
    advantages: Sequence[Sequence[float] | np.ndarray],
    by_turn: Sequence[Sequence[Sequence[float]]],
    pictures: Pictures,
) -> list[dict[str, Any]]:
    """What was sampled. `advantages`: a rollout's [P][G]; `by_turn`: those of its turns [P][G][K], for plays."""
    rows: list[dict[str, Any]] = []
    for p, group in enumerate(groups):
        for g, rollout in enumerate(group.rollouts):
            said = [(piece.text, piece.turn) for piece in rollout.sampled_pieces if piece.turn]
            turns = _turn_rows(said, pictures)
            for turn, advantage in zip(turns, by_turn[p][g] if turns else (), strict=True):
                turn["advantage"] = float(advantage)
            rows.append(
                {
                    **_sample_row(group.sample, pictures),
                    **_rollout_row(rollout),
                    "advantage": float(advantages[p][g]),
                    **({"turns": turns} if turns else {}),
                }
            )
    return rows


def record_rows(
    samples: Sequence[Sample], records: Sequence[Record], pictures: Pictures
) -> list[dict[str, Any]]:
    """What was graded: the records of each sample, as many for one as for another."""
    kept = _pictured(records)
    answers = len(records) // len(samples)
    rows: list[dict[str, Any]] = []
    for place, record in enumerate(records):
        own = pictures if place in kept else None
        rows.append(
            {
                **_sample_row(samples[place // answers], own),
                "output": record.output,
                "extracted": record.extracted,
                "grades": dict(record.grades),
                "scores": dict(record.scores),
                "truncated": record.truncated,
                **_played_row(record, own),
            }
        )
    return rows


def with_all_pictures(rows: Sequence[dict[str, Any]], ranks: Ranks) -> list[dict[str, Any]]:
    """The rows with the pictures of turns that other ranks have played, and kept."""
    own = [[turn["images"] for turn in row.get("turns", ())] for row in rows]
    parts = ranks.gather([own])
    for k, row in enumerate(rows):
        for t, turn in enumerate(row.get("turns", ())):
            turn["images"] = max((given[k][t] for (given,) in parts), key=len)
    return list(rows)


def _pictured(records: Sequence[Record]) -> set[int]:
    """The records whose images are kept: of each kind, one half earned least, the other most."""
    kinds: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        kinds.setdefault(record.tags.get("kind", ""), []).append(number)
    kept: set[int] = set()
    for numbers in kinds.values():
        rising = sorted(numbers, key=lambda k: _worth(records[k]))
        least = rising[: PICTURED_RECORDS // 2]
        rest = sorted(rising[len(least) :], key=lambda k: (-_worth(records[k]), k))
        kept.update(least, rest[: PICTURED_RECORDS - len(least)])
    return kept


def _worth(record: Record) -> float:
    """Of a play the strict grade, for its scores are of several kinds, such as the turns it took."""
    return record.grades.get(STRICT, 0.0) if record.turns else mean_score(record.scores)


def _sample_row(sample: Sample, pictures: Pictures | None) -> dict[str, Any]:
    texts = [
        "".join("<image>" if part is IMAGE else str(part) for part in message.content)
        for message in sample.messages
    ]
    return {
        "id": sample.id,
        "prompt": "\n".join(texts),
        "images": [pictures.keep(image) for image in sample.images] if pictures else [],
        "answer": sample.answer,
        "tags": dict(sample.tags),
    }


def _turn_rows(said: Sequence[tuple[str, Turn]], pictures: Pictures | None) -> list[dict[str, Any]]:
    """What was shown and said, turn by turn."""
    return [
        {
            "shown": turn.shown,
            "images": [pictures.keep(image) for image in turn.images] if pictures else [],
            "said": text,
            "reward": turn.reward - turn.penalty,
            "valid": turn.valid,
        }
        for text, turn in said
    ]


def _played_row(record: Record, pictures: Pictures | None) -> dict[str, Any]:
    """What only records of plays have."""
    turns = _turn_rows(record.turns, pictures)
    errors = {"errors": dict(record.errors)} if record.errors else {}
    return {**({"turns": turns} if turns else {}), **errors}


def _rollout_row(rollout: Rollout) -> dict[str, Any]:
    return {
        "completion": rollout.text,
        "reward": rollout.reward,
        "scores": dict(rollout.scores),
        **({"errors": dict(rollout.errors)} if rollout.errors else {}),
        "tokens": rollout.tokens,
        "finish": "length" if rollout.truncated else "stop",
        "origin": rollout.origin,
        **({"ended": rollout.ended} if rollout.turns else {}),
    }
