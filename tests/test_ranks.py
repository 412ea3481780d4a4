"""Two processes that train together take the step that one would take alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from tests.fakes import CORPUS, group_of, tiny_config
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.batch import make_batches
from vlrft.config import UpdateConfig
from vlrft.engine import build
from vlrft.lesson import advantages_of
from vlrft.objectives import NonFiniteError
from vlrft.policy.load import Policy, load_policy
from vlrft.ranks import Ranks
from vlrft.schema import Group
from vlrft.selection.collect import collect
from vlrft.selection.keep import Accumulate
from vlrft.selection.prompts import PromptSampler
from vlrft.update import update

METHODS = sorted(set(ALGORITHMS) - {"sft"})
SPLITS = {"mixed": (0, 2, 4), "one rank has nothing to learn": (0, 3, 4)}  # where each rank's begin
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
    engine = build(UpdateConfig(lr=1e-9, max_grad_norm=None), own, 1, ranks)
    advantages = advantages_of(
        groups,
        algorithm,
        max_tokens=8,
        greedy=[0.5] * len(groups) if algorithm.estimator.greedy else None,
        ranks=ranks,
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


def work(rank: int, folder: Path) -> None:
    """One of two processes: its share of the groups, every method; gradients and decisions go to a file."""
    torch.set_num_threads(1)
    rendezvous = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    ranks, own = Ranks.joined(), policy()
    groups = played(own)
    found: dict[str, Any] = {}
    for split, ends in SPLITS.items():
        mine = groups[ends[rank] : ends[rank + 1]]
        for name in METHODS:
            found[f"{split}/{name}"] = gradient(own, mine, ALGORITHMS[name], ranks)
    prompts = PromptSampler([g.sample for g in groups], seed=rank)
    taught = iter([0, 0, 3] if rank else [0, 1, 0])  # how many groups teach, attempt by attempt

    def play(samples: Sequence[Any], attempt: int) -> list[Group]:
        valid = next(taught)
        return [groups[0] if k < valid else groups[3] for k in range(len(samples))]

    keep = Accumulate(share=0.5)
    found["attempts"] = collect(prompts, play, keep, 4, total=ranks.total).attempts
    found["broken"] = broken(own, groups, ranks)
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


def broken(own: Policy, groups: Sequence[Group], ranks: Ranks) -> list[str]:
    """What both ranks say when the first one meets a log-prob that is no number."""
    mine = groups[ranks.rank : ranks.rank + 1]
    algorithm = ALGORITHMS["gpg"]
    engine = build(UpdateConfig(lr=1.0), own, 1, ranks)
    batches = make_batches(
        mine,
        advantages_of(mine, algorithm, ranks=ranks),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        ranks=ranks,
    )

    def fail(loss: Tensor) -> None:
        raise NonFiniteError("a gradient broke")

    if ranks.rank == 0:
        vars(engine)["backward"] = fail
    before = {name: tensor.clone() for name, tensor in own.trained().items()}
    _, skipped = update(engine, batches, algorithm, 1000)
    assert all(torch.equal(t, before[name]) for name, t in own.trained().items())
    return [one.reason for one in skipped]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    spawn(work, args=(folder,), nprocs=2)  # type: ignore[no-untyped-call]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


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


def test_both_go_on_sampling_until_all_together_have_enough(pair: list[dict[str, Any]]) -> None:
    """4 prompts a rank, share 0.5: four groups that teach are needed of eight; they come with the third attempt."""
    assert [found["attempts"] for found in pair] == [3, 3]


def test_a_number_that_breaks_on_one_rank_stops_the_step_on_both(
    pair: list[dict[str, Any]],
) -> None:
    assert pair[0]["broken"] == ["a gradient broke"]
    assert pair[1]["broken"] == ["another rank met a number that is not finite"]
