"""Two processes that train together take the same step as one process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm
from vlrft.config import UpdateConfig
from vlrft.distributed.agreement import require_agreement
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import build_engine
from vlrft.engine.gradient_buckets import GradientBuckets
from vlrft.engine.single import SingleEngine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.schema.errors import ConfigError, RanksError
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS, group_of, tiny_config
from vlrft.trainer.batch import make_batches
from vlrft.trainer.update import update


def of_one_loss(name: str) -> tuple[object, ...]:
    """Equal for algorithms whose steps differ in advantages alone, which are the same on every rank."""
    a = ALGORITHMS[name]
    return type(a.objective), a.reduction, a.needs, a.correction


LOSSES = sorted({of_one_loss(name): name for name in ALGORITHMS if name != "sft"}.values())
SPLITS = {  # the rank that played each group
    "mixed": (0, 0, 1, 1),
    "one rank has nothing to learn": (0, 0, 0, 1),
    "one rank has nothing": (1, 1, 1, 1),
}
TOLERANCE = 1e-10


def make_policy() -> Policy:
    return load_policy(replace(tiny_config("qwen2"), dtype="float64"), corpus=CORPUS, seed=0)


def make_groups(policy: Policy) -> list[Group]:
    """Ragged groups; the last teaches nothing."""
    return [
        group_of(policy.chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        group_of(policy.chat, "which?", [1.0, 0.25], ["x", "yes"]),
        group_of(policy.chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
        group_of(policy.chat, "none?", [0.5, 0.5], ["no", "none"]),
    ]


def gradient(policy: Policy, groups: Sequence[Group], algorithm: Algorithm, ranks: Ranks) -> Tensor:
    """The step's gradient [N] of all weights, summed over the ranks."""
    kept: list[Tensor] = []
    engine = build_engine(UpdateConfig(lr=1e-9, max_grad_norm=None), policy, 1, ranks)
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

    parameters = [p for p in policy.model.parameters() if p.requires_grad]
    vars(engine)["optimizer"].register_step_pre_hook(keep)
    before = {name: tensor.clone() for name, tensor in policy.trained_weights().items()}
    _, skipped = update(engine, batches, algorithm, 40, policy.reference())
    policy.load_weights(before)
    assert not skipped
    return kept[0]


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """One of two processes: gradients of its groups by every loss, and shared decisions. The first one also computes the
    gradients of one process."""
    policy = make_policy()
    groups = make_groups(policy)
    results: dict[str, Any] = {}
    for split, players in SPLITS.items():
        shared = [replace(g, rank=r) for g, r in zip(groups, players, strict=True)]
        for name in LOSSES:
            results[f"{split}/{name}"] = gradient(policy, shared, ALGORITHMS[name], ranks)
    results |= sums_in_buckets(ranks)
    results["first"] = results_of_first(ranks)
    results["broken"] = broken(policy, groups, ranks)
    results["disagreement"] = disagreement(ranks)
    if ranks.first:  # at the end, when no other waits for it
        for name in LOSSES:
            results[f"alone/{name}"] = gradient(policy, groups, ALGORITHMS[name], ALONE)
    return results


def disagreement(ranks: Ranks) -> list[str]:
    """The messages of a rank that has another value than the others, and one that has the same."""
    require_agreement(ranks, {"seed": "0"})
    try:
        require_agreement(ranks, {"seed": "0", "lr": str(0.1 + ranks.rank)})
    except ConfigError as e:
        return e.mistakes
    return []


def broken(policy: Policy, groups: Sequence[Group], ranks: Ranks) -> list[str]:
    """The skipped steps on each rank when log-probs of rank 1 are not finite."""
    shared = [replace(g, rank=k % 2) for k, g in enumerate(groups)]
    algorithm = ALGORITHMS["gpg"]
    engine = build_engine(UpdateConfig(lr=1.0), policy, 1, ranks)
    batches = make_batches(
        shared,
        estimate_rows(shared, algorithm.estimator),
        algorithm,
        temperature=1.0,
        max_tokens=8,
        ranks=ranks,
    )
    if ranks.rank == 1:

        def broken(*inputs: Any) -> tuple[Tensor, Tensor]:
            logprobs, entropy = policy.scorer(*inputs)
            return logprobs * float("nan"), entropy

        engine.scorer = broken
    before = {name: tensor.clone() for name, tensor in policy.trained_weights().items()}
    _, skipped = update(engine, batches, algorithm, 1000)
    assert all(torch.equal(t, before[name]) for name, t in policy.trained_weights().items())
    return [f"{one.reason} {list(one.samples)}" for one in skipped]


def results_of_first(ranks: Ranks) -> list[Any]:
    """A result and two exceptions of rank 0, as this rank gets them."""
    results: list[Any] = [ranks.run_on_first(lambda: ranks.rank + 7)]
    try:
        ranks.run_on_first(lambda: 1 // ranks.rank)
    except ZeroDivisionError as e:
        results.append(str(e))
    try:
        ranks.run_on_first(lambda: refuse("one", "two"))
    except ConfigError as e:
        results.append(e.mistakes)
    return results


class Odd(Exception):
    """An exception that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("the disk is full")
        self.lock = threading.Lock()


def refuse(*mistakes: str) -> None:
    raise ConfigError(mistakes)


class Calls:
    """Counts the collectives of GradientBuckets, and notes where they begin."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.place = ""
        self._all_reduce = dist.all_reduce

    def __call__(self, tensor: Tensor, **keys: Any) -> Any:
        self.places.append(f"{self.place} {tensor.dtype}")
        return self._all_reduce(tensor, **keys)


def sum_of_step(
    engine: SingleEngine, scales: list[float], unused: int, calls: Calls
) -> list[Tensor]:
    """Gradients after micro-batches whose gradient is a multiple of the weights; the `unused` first weights get none."""
    calls.places.clear()
    for k, scale in enumerate(scales):
        loss = sum((p.float() ** 2).sum() for p in engine.parameters[unused:])
        calls.place = "backward"
        engine.backward(loss * scale, last=k == len(scales) - 1)
    calls.place = "step"
    engine.sums.finish()
    gradients = [torch.zeros(()) if w.grad is None else w.grad.clone() for w in engine.weights]
    engine.discard()
    return gradients


def sums_in_buckets(ranks: Ranks) -> dict[str, Any]:
    """Gradients, and the collectives that summed them, of a few steps in both dtypes."""
    results: dict[str, Any] = {}
    for dtype in ("float32", "bfloat16"):
        policy = load_policy(replace(tiny_config("qwen2"), dtype=dtype), corpus=CORPUS, seed=0)
        engine = build_engine(UpdateConfig(), policy, 1, ranks)
        assert isinstance(engine, SingleEngine)
        engine.sums = GradientBuckets(engine.weights, ranks, 4096)
        calls = Calls()
        with patch("vlrft.engine.gradient_buckets.dist.all_reduce", calls):
            scale = 1.0 + ranks.rank
            results[f"{dtype}/both"] = sum_of_step(engine, [0.25, scale], 0, calls)
            results[f"{dtype}/calls"] = list(calls.places)
            results[f"{dtype}/one rank lacks some"] = sum_of_step(
                engine, [scale], 2 * ranks.rank, calls
            )
            results[f"{dtype}/all lack some"] = sum_of_step(engine, [scale], 3, calls)
            results[f"{dtype}/none"] = sum_of_step(engine, [], 0, calls)
            results[f"{dtype}/calls of none"] = list(calls.places)
        single = build_engine(UpdateConfig(), policy, 1)
        assert isinstance(single, SingleEngine)
        single.backward(sum((p.float() ** 2).sum() for p in single.parameters), last=True)
        results[f"{dtype}/squares"] = [w.grad for w in single.weights]
        results[f"{dtype}/buckets"] = len(engine.sums.buckets)
    return results


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks(work, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize(
    ("name", "split"),
    [(name, split) for split in SPLITS for name in LOSSES],
)
def test_two_processes_compute_the_gradient_of_one(
    pair: list[dict[str, Any]], name: str, split: str
) -> None:
    expected = pair[0][f"alone/{name}"]
    scale = float(expected.abs().max())
    assert scale > 1e-6
    for results in pair:
        gap = float((results[f"{split}/{name}"] - expected).abs().max())
        assert gap <= TOLERANCE * max(scale, 1.0)


def test_every_rank_gets_the_result_or_the_exception_of_rank_0(
    pair: list[dict[str, Any]],
) -> None:
    assert pair[0]["first"] == pair[1]["first"]
    assert pair[1]["first"][0] == 7
    assert "by zero" in pair[1]["first"][1]
    assert pair[1]["first"][2] == ["one", "two"]


def test_an_exception_that_cannot_be_sent_is_told_on_every_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[bytes] = []

    def fail() -> None:
        raise Odd

    def send(objects: list[object]) -> None:
        sent.append(pickle.dumps(objects))

    def receive(objects: list[object]) -> None:
        objects[:] = pickle.loads(sent[0])

    monkeypatch.setattr(dist, "broadcast_object_list", send)
    with pytest.raises(Odd, match="the disk is full"):
        Ranks(rank=0, size=2).run_on_first(fail)
    monkeypatch.setattr(dist, "broadcast_object_list", receive)
    with pytest.raises(RanksError, match="rank 0: Odd: the disk is full"):
        Ranks(rank=1, size=2).run_on_first(fail)


def test_a_log_prob_that_is_not_finite_on_one_rank_skips_the_step_on_both(
    pair: list[dict[str, Any]],
) -> None:
    (message,) = pair[0]["broken"]
    assert pair[1]["broken"] == [message]
    assert message.startswith("rank 1: log-probs: not finite")
    assert message.endswith("['which?']")


def test_ranks_that_disagree_stop_with_the_same_lines(pair: list[dict[str, Any]]) -> None:
    assert pair[0]["disagreement"][0] == "lr differs between ranks: 0.1 on rank 0; 1.1 on rank 1"
    assert pair[1]["disagreement"] == pair[0]["disagreement"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_are_those_of_one_tensor_at_a_time(pair: list[dict[str, Any]], dtype: str) -> None:
    """Micro-batches of ¼ on both ranks, and then of 1 and 2."""
    squares = pair[0][f"{dtype}/squares"]
    for results in pair:
        sums = results[f"{dtype}/both"]
        expected = [(g / 4 + g) + (g / 4 + g * 2) for g in squares]
        assert all(torch.equal(a, b) for a, b in zip(sums, expected, strict=True))
        lacking = results[f"{dtype}/one rank lacks some"]
        factors = [1.0] * 2 + [3.0] * (len(squares) - 2)
        for total, square, factor in zip(lacking, squares, factors, strict=True):
            assert torch.equal(total, square * factor)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gradient_that_no_rank_has_stays_none(pair: list[dict[str, Any]], dtype: str) -> None:
    for results in pair:
        sums = results[f"{dtype}/all lack some"]
        assert [t.ndim == 0 for t in sums[:4]] == [True, True, True, False]
        assert all(t.ndim == 0 for t in results[f"{dtype}/none"])
        assert results[f"{dtype}/calls of none"] == ["step torch.float64"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_collectives_which_begin_during_the_last_backward_pass(
    pair: list[dict[str, Any]], dtype: str
) -> None:
    for results in pair:
        buckets = results[f"{dtype}/buckets"]
        assert 1 < buckets < len(results[f"{dtype}/squares"])
        assert results[f"{dtype}/calls"] == [
            *["backward torch.float32"] * buckets,
            "step torch.int32",
        ]
