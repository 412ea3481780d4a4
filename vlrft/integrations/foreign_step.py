"""What a foreign trainer holds of one optimiser step, as our groups and the rows that are trained on. No trainer here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from vlrft.advantages.rows import estimate_rows, rollout_means
from vlrft.algorithms import Algorithm
from vlrft.objectives import LossBatch
from vlrft.schema import Group, Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.selection.rollout_filters import select_and_estimate
from vlrft.trainer.batch import make_batch


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A completion and what its reward functions gave."""

    ids: tuple[int, ...]  # [T]
    sampled: tuple[bool, ...]  # [T] False: a tool's or an environment's token
    truncated: bool
    scores: Mapping[str, float | None]  # None: the function does not apply


@dataclass(frozen=True, kw_only=True)
class WholeStep:
    """The rows of all ranks that an optimiser step trains on, with its denominators."""

    loss: LossBatch
    place: Mapping[
        int, int
    ]  # number of an answer -> its row; an answer that teaches nothing has none
    advantages: tuple[float, ...]  # of each answer, the mean over its action tokens


def whole_step(
    answers: Sequence[Answer],
    group_size: int,
    algorithm: Algorithm,
    weights: Mapping[str, float],
    max_tokens: int,
) -> WholeStep:
    """The step of the given answers, `group_size` neighbours a group. An answer that no reward function applies to
    leaves it. Groups and rollouts that the method does not keep leave it too; nothing is sampled in their place.

    Raises RewardError and AdvantageError.
    """
    number: dict[int, int] = {}  # id() of a rollout -> that of its answer
    groups: list[Group] = []
    for first in range(0, len(answers), group_size):
        sample = Sample(id=f"group {first // group_size}", messages=())
        rollouts: list[Rollout] = []
        for n, answer in enumerate(answers[first : first + group_size], first):
            if any(score is not None for score in answer.scores.values()):
                rollouts.append(_rollout(sample, answer, weights))
                number[id(rollouts[-1])] = n
        if rollouts:
            groups.append(Group(sample=sample, rollouts=tuple(rollouts)))
    estimate = partial(
        estimate_rows, estimator=algorithm.estimator, weights=weights, max_tokens=max_tokens
    )
    groups = algorithm.keep.choose(groups, len(groups))
    kept, advantages = select_and_estimate(groups, algorithm.select, estimate)
    order = [number[id(r)] for g in kept for r in g.rollouts]
    # Log-probs come from the trainer, at its own temperature.
    batch = make_batch(kept, advantages, algorithm, temperature=1.0, max_tokens=max_tokens).loss
    means = dict(zip(order, (a for g in rollout_means(advantages) for a in g), strict=True))
    return WholeStep(
        loss=batch,
        place={order[int(r)]: b for b, r in enumerate(batch.rollout)},
        advantages=tuple(means.get(n, 0.0) for n in range(len(answers))),
    )


def _rollout(sample: Sample, answer: Answer, weights: Mapping[str, float]) -> Rollout:
    runs = groupby(zip(answer.ids, answer.sampled, strict=True), key=lambda token: token[1])
    pieces = [Piece(ids=tuple(i for i, _ in run), text="", sampled=own) for own, run in runs]
    if answer.truncated:
        pieces.append(Piece(ids=(), text="", finish="length"))
    return Rollout(
        sample=sample,
        rows=(TrainingRow(prompt=Prompt(ids=()), pieces=tuple(pieces)),),
        reward=sum(weights[name] * s for name, s in answer.scores.items() if s is not None),
        scores=answer.scores,
    )
