"""One optimiser step of another trainer, from its scored completions to our loss batch. Imports no trainer."""

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
class ScoredCompletion:
    """A completion and its scores by reward function."""

    ids: tuple[int, ...]  # [T]
    sampled: tuple[bool, ...]  # [T] False: a token of a tool or an environment
    truncated: bool
    scores: Mapping[str, float | None]  # None: the function does not apply


@dataclass(frozen=True, kw_only=True)
class ForeignStep:
    """The rows of all ranks that an optimiser step trains on, with the step's denominators."""

    loss: LossBatch
    row_of: Mapping[int, int]
    """Index of a completion -> its row; a completion that is not trained on has none."""
    advantages: tuple[float, ...]  # of each completion, the mean over its action tokens


def foreign_step(
    completions: Sequence[ScoredCompletion],
    group_size: int,
    algorithm: Algorithm,
    weights: Mapping[str, float],
    max_tokens: int,
) -> ForeignStep:
    """The step of these completions; `group_size` consecutive ones are a group.

    A completion to which no reward function applies is left out, and so are groups that have fewer others than the algorithm
    compares, and groups and rollouts that it does not keep; nothing is sampled in their place. Raises RewardError and
    AdvantageError.
    """
    index: dict[int, int] = {}  # id() of a rollout -> the index of its completion
    groups: list[Group] = []
    for first in range(0, len(completions), group_size):
        sample = Sample(id=f"group {first // group_size}", messages=())
        rollouts: list[Rollout] = []
        for n, completion in enumerate(completions[first : first + group_size], first):
            if any(score is not None for score in completion.scores.values()):
                rollouts.append(_rollout(sample, completion, weights))
                index[id(rollouts[-1])] = n
        if len(rollouts) >= algorithm.min_group:
            groups.append(Group(sample=sample, rollouts=tuple(rollouts)))
    estimate = partial(
        estimate_rows, estimator=algorithm.estimator, weights=weights, max_tokens=max_tokens
    )
    groups = algorithm.keep.choose(groups, len(groups))
    kept, advantages = select_and_estimate(
        groups,
        algorithm.select,
        estimate,
        min_estimated=algorithm.estimator.min_group,
        min_trained=algorithm.min_trained,
    )
    order = [index[id(r)] for g in kept for r in g.rollouts]
    # The log-probs come from the trainer, at its temperature.
    batch = make_batch(kept, advantages, algorithm, temperature=1.0, max_tokens=max_tokens).loss
    means = dict(zip(order, (a for g in rollout_means(advantages) for a in g), strict=True))
    return ForeignStep(
        loss=batch,
        row_of={order[int(r)]: b for b, r in enumerate(batch.rollout)},
        advantages=tuple(means.get(n, 0.0) for n in range(len(completions))),
    )


def _rollout(sample: Sample, completion: ScoredCompletion, weights: Mapping[str, float]) -> Rollout:
    runs = groupby(zip(completion.ids, completion.sampled, strict=True), key=lambda token: token[1])
    pieces = [
        Piece(ids=tuple(i for i, _ in run), text="", sampled=sampled) for sampled, run in runs
    ]
    if completion.truncated:
        pieces.append(Piece(ids=(), text="", finish="length"))
    return Rollout(
        sample=sample,
        rows=(TrainingRow(prompt=Prompt(ids=()), pieces=tuple(pieces)),),
        reward=sum(weights[name] * s for name, s in completion.scores.items() if s is not None),
        scores=completion.scores,
    )
