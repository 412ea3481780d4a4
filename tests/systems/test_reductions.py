"""Each reduction of the catalogue: with its settings a system's loss and gradient are another one's, on the shared rollouts."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from torch import Tensor

from tests.systems.rollouts import (
    LETTERS,
    injected,
    step_groups,
    weights_of_rewards,
    with_rewards,
)
from vlrft.advantages.rows import RowAdvantages, estimate_step
from vlrft.algorithms import Algorithm
from vlrft.algorithms.find import override
from vlrft.config.load import load_config
from vlrft.config.systems import Reduction, System, all_systems
from vlrft.plugins.find import find_task
from vlrft.schema import Group
from vlrft.selection.replay import ReplayStore
from vlrft.selection.rollout_filters import select_and_estimate
from vlrft.trainer.batch import make_batch
from vlrft.trainer.stage_settings import find_choices

ENTRIES = [(s, r) for s in all_systems().values() for r in s.reduces]
SMALL_GROUPS = {125}  # keeps more rollouts than the shared groups have
LONGEST = 16
Row = tuple[str, tuple[int, ...]]  # the sample's id and the tokens
Trained = tuple[float, Mapping[Row, Tensor]]


@cache
def algorithm_of(number: int) -> Algorithm:
    return find_choices(load_config(f"system:{number}"))[-1][0]


def numbers_of(row: Row, name: str, width: int) -> list[float]:
    """Log-probs or entropies of a row's tokens, padded."""
    draw = random.Random(f"{name} {row}")
    return [-draw.random() for _ in row[1]] + [0.0] * (width - len(row[1]))


def train(
    algorithm: Algorithm, groups: Sequence[Group], weights: Mapping[str, float], done: float
) -> Trained:
    """The loss of a step in float64, and its gradient by row. Rows of the same tokens are added up."""
    algorithm, rule = algorithm.at(done), algorithm.inject
    played = [rule.add(g, injected(g)) if rule and rule.wants(g) else g for g in groups]
    kept = algorithm.keep.choose(played, len(played))
    if algorithm.replay is not None:
        store = ReplayStore(algorithm.replay)
        store.mix(kept)
        kept = store.mix(kept)
    estimate = partial(estimated, algorithm, weights, done)
    chosen, advantages = select_and_estimate(kept, algorithm.select, estimate)
    batch = make_batch(chosen, advantages, algorithm, temperature=1.0, max_tokens=LONGEST)
    rows, width = list(zip(batch.samples, batch.ids, strict=True)), batch.loss.mask.shape[1]
    now, old, ref, entropy = (
        torch.tensor([numbers_of(row, name, width) for row in rows], dtype=torch.float64)
        for name in ("now", "old", "ref", "entropy")
    )
    now.requires_grad_()
    inputs = replace(batch.loss, old_logprobs=old, ref_logprobs=ref, entropy=entropy)
    loss, _ = algorithm.loss(now, inputs)
    (gradient,) = torch.autograd.grad(loss, now)
    by_row: dict[Row, Tensor] = defaultdict(lambda: torch.zeros(LONGEST, dtype=torch.float64))
    for row, values in zip(rows, gradient, strict=True):
        by_row[row][: len(row[1])] += values[: len(row[1])]
    return float(loss.detach()), by_row


def estimated(
    algorithm: Algorithm, weights: Mapping[str, float], done: float, groups: Sequence[Group]
) -> list[RowAdvantages]:
    return estimate_step(
        groups, algorithm.estimator, weights=weights, max_tokens=LONGEST, progress=done
    ).rows


def distance(one: Trained, other: Trained) -> float:
    """The largest difference of loss and gradient."""
    nothing = torch.zeros(LONGEST, dtype=torch.float64)
    parts = [
        float((one[1].get(row, nothing) - other[1].get(row, nothing)).abs().max())
        for row in {*one[1], *other[1]}
    ]
    return max(abs(one[0] - other[0]), *parts)


@pytest.mark.parametrize(
    ("system", "reduction"), ENTRIES, ids=[f"{s.id}-{r.to}" for s, r in ENTRIES]
)
def test_a_system_is_another_one_under_the_settings_that_the_catalogue_says(
    system: System, reduction: Reduction
) -> None:
    config = load_config(f"system:{system.id}")
    weights = weights_of_rewards(config)
    turns = 1 if find_task(config.task.name).env is None else 2
    groups = with_rewards(step_groups(LETTERS, 0, turns), weights)
    ours, theirs = algorithm_of(system.id), algorithm_of(reduction.to)
    done = reduction.at or 0.0
    other = train(override(theirs, reduction.there), groups, weights, done)
    assert any(bool(row.any()) for row in other[1].values())
    limit = train(override(ours, reduction.given), groups, weights, done)
    assert distance(limit, other) < 1e-12
    if reduction.given and system.id not in SMALL_GROUPS:
        assert distance(train(ours, groups, weights, done), other) > 1e-6


def test_the_catalogue_says_what_many_systems_reduce_to() -> None:
    assert len(ENTRIES) >= 20
    assert all(all_systems()[r.to].runs for _, r in ENTRIES)
