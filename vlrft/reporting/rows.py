"""Rollouts and evaluation records as rows of rollouts.jsonl and evals.jsonl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vlrft.distributed.ranks import Ranks
from vlrft.evaluation.evaluate import mean_score
from vlrft.reporting.files import ImageStore
from vlrft.reporting.strips import draw_strip
from vlrft.schema import Group, Record, Rollout, Sample, Turn
from vlrft.schema.sample import part_text
from vlrft.scoring.graders import STRICT

RECORDS_WITH_IMAGES = 40  # evaluation records of a kind whose images are kept for the report


def rollout_rows(
    groups: Sequence[Group],
    advantages: Sequence[Sequence[float] | np.ndarray],
    by_turn: Sequence[Sequence[Sequence[float]]],
    images: ImageStore,
) -> list[dict[str, Any]]:
    """A row for each rollout. `advantages`: of rollouts [P][G]; `by_turn`: of the turns of episodes [P][G][K]."""
    rows: list[dict[str, Any]] = []
    for p, group in enumerate(groups):
        for g, rollout in enumerate(group.rollouts):
            texts = [(piece.text, piece.turn) for piece in rollout.sampled_pieces if piece.turn]
            turns = _turn_rows(texts, images)
            for turn, advantage in zip(turns, by_turn[p][g] if turns else (), strict=True):
                turn["advantage"] = float(advantage)
            rows.append(
                {
                    **_sample_fields(group.sample, images),
                    **_rollout_fields(rollout),
                    "advantage": float(advantages[p][g]),
                    **({"turns": turns} if turns else {}),
                }
            )
    return rows


def record_rows(
    samples: Sequence[Sample], records: Sequence[Record], images: ImageStore
) -> list[dict[str, Any]]:
    """A row for each graded record; every sample has the same number of records, in the order of the samples."""
    with_images = _records_with_images(records)
    answers = len(records) // len(samples)
    rows: list[dict[str, Any]] = []
    for k, record in enumerate(records):
        store = images if k in with_images else None
        rows.append(
            {
                **_sample_fields(samples[k // answers], store),
                "output": record.output,
                "extracted": record.extracted,
                "grades": dict(record.grades),
                "scores": dict(record.scores),
                "truncated": record.truncated,
                **({"unreadable": record.unreadable} if record.unreadable else {}),
                **_episode_fields(record, store),
            }
        )
    return rows


def gather_images(rows: Sequence[dict[str, Any]], ranks: Ranks) -> list[dict[str, Any]]:
    """The rows with the paths of all turns' images: each rank has saved those of the episodes that it played."""
    paths = [[turn["images"] for turn in row.get("turns", ())] for row in rows]
    by_rank = ranks.gather([paths])
    for k, row in enumerate(rows):
        for t, turn in enumerate(row.get("turns", ())):
            turn["images"] = max((rank_paths[k][t] for (rank_paths,) in by_rank), key=len)
    return list(rows)


def _records_with_images(records: Sequence[Record]) -> set[int]:
    """Indices of the records whose images are saved: of each kind, half of them the worst and half the best."""
    kinds: dict[str, list[int]] = {}
    for k, record in enumerate(records):
        kinds.setdefault(record.tags.get("kind", ""), []).append(k)
    selected: set[int] = set()
    for indices in kinds.values():
        ascending = sorted(indices, key=lambda k: _ranking_score(records[k]))
        worst = ascending[: RECORDS_WITH_IMAGES // 2]
        rest = sorted(ascending[len(worst) :], key=lambda k: (-_ranking_score(records[k]), k))
        selected.update(worst, rest[: RECORDS_WITH_IMAGES - len(worst)])
    return selected


def _ranking_score(record: Record) -> float:
    """The mean score; the strict grade of an episode, whose scores are not all grades (one may count turns)."""
    return record.grades.get(STRICT, 0.0) if record.turns else mean_score(record.scores)


def _sample_fields(sample: Sample, images: ImageStore | None) -> dict[str, Any]:
    texts = ["".join(map(part_text, message.content)) for message in sample.messages]
    strips = [
        {"image": images.save(draw_strip(video)), "seconds": video.source_seconds}
        for video in sample.videos
        if images
    ]
    return {
        "id": sample.id,
        "prompt": "\n".join(texts),
        "images": [images.save(image) for image in sample.images] if images else [],
        **({"strips": strips} if strips else {}),
        "answer": sample.answer,
        "tags": dict(sample.tags),
        **({"frame": list(sample.info["frame"])} if "frame" in sample.info else {}),
    }


def _turn_rows(
    turns: Sequence[tuple[str, Turn]], images: ImageStore | None
) -> list[dict[str, Any]]:
    """A row for each turn, of its observation and the policy's text."""
    return [
        {
            "shown": turn.shown,
            "images": [images.save(image) for image in turn.images] if images else [],
            "said": text,
            "reward": turn.reward - turn.penalty,
            "valid": turn.valid,
        }
        for text, turn in turns
    ]


def _episode_fields(record: Record, images: ImageStore | None) -> dict[str, Any]:
    """Fields that only records of episodes have."""
    turns = _turn_rows(record.turns, images)
    errors = {"errors": dict(record.errors)} if record.errors else {}
    return {**({"turns": turns} if turns else {}), **errors}


def _rollout_fields(rollout: Rollout) -> dict[str, Any]:
    return {
        "completion": rollout.text,
        "reward": rollout.reward,
        "scores": dict(rollout.scores),
        **({"errors": dict(rollout.errors)} if rollout.errors else {}),
        "tokens": rollout.tokens,
        "finish": "length" if rollout.truncated else "stop",
        "origin": rollout.origin,
        **_versions(rollout),
        **({"ended": rollout.ended} if rollout.turns else {}),
    }


def _versions(rollout: Rollout) -> dict[str, list[int]]:
    """`policy_steps`: the first and the last of the run's steps whose weights sampled a token, where the engine reports them."""
    if not any(piece.policy_steps for piece in rollout.sampled_pieces):
        return {}
    steps = rollout.policy_steps
    return {"policy_steps": [min(steps), max(steps)]}
