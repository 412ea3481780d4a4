"""Two processes that train together take the step that one would take alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fakes.policies import CORPUS, group_of, tiny_config
from tests.fakes.process_ranks import side_by_side
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.config import UpdateConfig
from vlrft.distributed.ranks import Ranks
from vlrft.engine import build_engine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update

METHODS = sorted(set(ALGORITHMS) - {"sft"})
SPLITS = {  # the rank that played each group
    "mixed": (0, 0, 1, 1),
    "one rank has nothing to learn": (0, 0, 0, 1),
    "one rank has nothing": (1, 1, 1, 1),
}
TOLERANCE = 1e-10


def policy() -> Policy:
    return load_policy(replace(tiny_config("qwen2"), dtype="float64"), corpus=CORPUS, seed=0)


def played(own: Policy) -> list[Group]:
    """Ragged groups; the last teaches nothing."""
    return [
        group_of(own.chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        group_of(own.chat, "which?", [1.0, 0.25], ["x", "yes"]),
        group_of(own.chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
        group_of(own.chat, "none?", [0.5, 0.5], ["no", "none"]),
    ]


def gradient(own: Policy, groups: Sequence[Group], algorithm: Algorithm, ranks: Ranks) -> Tensor:
    """The step's gradient [N] of all weights, summed over the ranks."""
    kept: list[Tensor] = []
    engine = build_engine(UpdateConfig(lr=1e-9, max_grad_norm=None), own, 1, ranks)
    advantages = estimate_rows(
        groups,
        algorithm.estimator,
        max_tokens=8,
        greedy=[0.5] * len(groups) if algorithm.estimator.greedy else None,
    )
    batches = make_batches(
        groups, advantages, algorithm, temperature=0.9, max_tokens=8, ranks=ranks
    )

    def keep(*_: Any) -> None:
        zero = torch.zeros((), dtype=torch.float64)
        parts = [zero.expand_as(p) if p.grad is None else p.grad for p in parameters]
        kept.append(torch.cat([part.flatten() for part in parts]))

    parameters = [p for p in own.model.parameters() if p.requires_grad]
    vars(engine)["optimizer"].register_step_pre_hook(keep)
    before = {name: tensor.clone() for name, tensor in own.trained().items()}
    _, skipped = update(engine, batches, algorithm, 40, own.reference())
    own.load_weights(before)
    assert not skipped
    return kept[0]


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """One of two processes: gradients of its share of the groups by every method, and decisions."""
    own = policy()
    groups = played(own)
    found: dict[str, Any] = {}
    for split, players in SPLITS.items():
        dealt = [replace(g, rank=r) for g, r in zip(groups, players, strict=True)]
        for name in METHODS:
            found[f"{split}/{name}"] = gradient(own, dealt, ALGORITHMS[name], ranks)
    found["first"] = run_on_first(ranks)
    found["broken"] = broken(own, groups, ranks)
    return found


def broken(own: Policy, groups: Sequence[Group], ranks: Ranks) -> list[str]:
    """What both ranks say when the first one meets a log-prob that is no number."""
    dealt = [replace(g, rank=k % 2) for k, g in enumerate(groups)]
    algorithm = ALGORITHMS["gpg"]
    engine = build_engine(UpdateConfig(lr=1.0), own, 1, ranks)
    batches = make_batches(
        dealt,
        estimate_rows(dealt, algorithm.estimator),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        ranks=ranks,
    )
    if ranks.rank == 1:

        def broken(*inputs: Any) -> tuple[Tensor, Tensor]:
            logprobs, entropy = own.scorer(*inputs)
            return logprobs * float("nan"), entropy

        engine.scorer = broken
    before = {name: tensor.clone() for name, tensor in own.trained().items()}
    _, skipped = update(engine, batches, algorithm, 1000)
    assert all(torch.equal(t, before[name]) for name, t in own.trained().items())
    return [f"{one.reason} {list(one.samples)}" for one in skipped]


def run_on_first(ranks: Ranks) -> list[Any]:
    """What the first rank alone does, and how it fails, as every rank sees it."""
    given: list[Any] = [ranks.run_on_first(lambda: ranks.rank + 7)]
    try:
        ranks.run_on_first(lambda: 1 // ranks.rank)
    except ZeroDivisionError as e:
        given.append(str(e))
    try:
        ranks.run_on_first(lambda: refuse("one", "two"))
    except ConfigError as e:
        given.append(e.mistakes)
    return given


def refuse(*mistakes: str) -> None:
    raise ConfigError(mistakes)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return side_by_side(work, tmp_path_factory.mktemp("ranks"))


@cache
def alone() -> dict[str, Tensor]:
    own = policy()
    return {m: gradient(own, played(own), ALGORITHMS[m], Ranks()) for m in METHODS}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_have_the_gradient_of_one(
    pair: list[dict[str, Any]], name: str, split: str
) -> None:
    expected = alone()[name]
    scale = float(expected.abs().max())
    assert scale > 1e-6
    for found in pair:
        gap = float((found[f"{split}/{name}"] - expected).abs().max())
        assert gap <= TOLERANCE * max(scale, 1.0)


def test_what_the_first_rank_does_or_cannot_do_every_rank_learns(
    pair: list[dict[str, Any]],
) -> None:
    assert pair[0]["first"] == pair[1]["first"]
    assert pair[1]["first"][0] == 7
    assert "by zero" in pair[1]["first"][1]
    assert pair[1]["first"][2] == ["one", "two"]


def test_a_number_that_breaks_on_one_rank_stops_the_step_on_both(
    pair: list[dict[str, Any]],
) -> None:
    (told,) = pair[0]["broken"]
    assert pair[1]["broken"] == [told]
    assert told.startswith("rank 1: log-probs: not finite")
    assert told.endswith("['which?']")
