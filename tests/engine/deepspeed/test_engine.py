"""DeepSpeed on two ranks takes the same steps as `single` on one: every ZeRO stage, images on some ranks only, ranks
without work, references, steps that are skipped, and states that one engine saves and another loads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fakes.policies import CORPUS, group_of, image_group, tiny_config
from tests.fakes.process_ranks import run_ranks
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import LoraConfig, UpdateConfig
from vlrft.distributed.ranks import Ranks
from vlrft.engine import TrainEngine, build_engine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.trainer.batch import Batch, make_batches
from vlrft.trainer.update import update

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs vlrft[deepspeed]")

# Adam's ε is as large as gradient noise: entries whose gradient is 0 but for rounding would otherwise change by ± lr.
UPDATE = UpdateConfig(lr=1e-3, weight_decay=0.1, max_grad_norm=0.5, eps=1e-3)
BUDGET = 60  # tokens of a micro-batch: several per step, the first without images
FLAT = 3  # the group whose rewards are equal
TOLERANCE = 1e-5  # relative, of each tensor


@dataclass(frozen=True)
class Case:
    """An engine, an algorithm, and the rank that played each of the five groups."""

    engine: dict[str, Any]
    algorithm: str = "gpg"
    players: tuple[int, ...] = (0, 0, 1, 1, 0)
    policy: dict[str, Any] = field(default_factory=dict[str, Any])
    breaks: bool = False  # the first step is not finite
    then: dict[str, Any] | None = None  # the engine that continues after the first step


IDLE = (0, 0, 0, 0, 0)
IMAGES_ON_1 = (0, 1, 0, 1, 1)
CASES = {
    "stage 1": Case({"stage": 1}, "cw_grpo"),
    "stage 2, whole groups, a rank without work": Case({"stage": 2}, "gvpo", IDLE),
    "stage 2, gmpo": Case({"stage": 2}, "gmpo", breaks=True),
    "stage 2, offloaded, images late": Case({"stage": 2, "offload": "cpu"}, "grpo", IDLE),
    "stage 3, images on one rank": Case(
        {"stage": 3}, "gpg", IMAGES_ON_1, {"activation_checkpointing": True}, breaks=True
    ),
    "stage 3, images late, a rank without work": Case({"stage": 3}, "grpo", IDLE),
    "stage 3, adapters": Case({"stage": 3}, "grpo", policy={"lora": LoraConfig(rank=4)}),
    "stage 2, then stage 1": Case({"stage": 2}, then={"stage": 1}),
    "stage 1, then stage 3": Case({"stage": 1}, then={"stage": 3}),
}


def played(policy: Policy) -> list[Group]:
    """Ragged groups with and without images; the rewards of one are equal."""
    chat = policy.chat
    return [
        group_of(chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        image_group(chat, "which?", [1.0, 0.25], ["x", "yes"]),
        group_of(chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
        image_group(chat, "none?", [0.5, 0.5], ["no", "none"]),
        image_group(chat, "two?", [0.0, 1.0, 0.0], ["x", "yes it is", "no"], images=2),
    ]


def batches(groups: Sequence[Group], name: str, ranks: Ranks) -> list[Batch]:
    algorithm = ALGORITHMS[name]
    advantages = estimate_rows(groups, algorithm.estimator, max_tokens=8)
    return make_batches(groups, advantages, algorithm, temperature=0.9, max_tokens=8, ranks=ranks)


def course(groups: Sequence[Group]) -> list[Sequence[Group]]:
    """The groups of each step; the second step has no gradient."""
    return [groups, groups[FLAT : FLAT + 1], groups]


def learn(
    case: Case,
    engine: TrainEngine,
    steps: Sequence[Sequence[Group]],
    reference: Policy,
    ranks: Ranks,
) -> dict[str, Tensor]:
    """Weights and optimiser state after the steps."""
    for groups in steps:
        step_batches = batches(groups, case.algorithm, ranks)
        _, skipped = update(engine, step_batches, ALGORITHMS[case.algorithm], BUDGET, reference)
        assert not skipped
    with engine.unsharded():
        weights = {name: tensor.clone() for name, tensor in engine.policy.trained_weights().items()}
    return weights | engine.state()[0]


def break_once(engine: TrainEngine, case: Case, groups: Sequence[Group], ranks: Ranks) -> None:
    """A step whose first micro-batch is finite and whose second one is not: it must change nothing."""
    scorer, calls = engine.scorer, iter(range(10))
    assert scorer is not None

    def broken(*inputs: Any) -> tuple[Tensor, Tensor]:
        logprobs, entropy = scorer(*inputs)
        return logprobs * (float("nan") if next(calls) > 0 else 1.0), entropy

    engine.scorer = broken
    step_batches = batches(groups, case.algorithm, ranks)
    _, skipped = update(engine, step_batches, ALGORITHMS[case.algorithm], BUDGET)
    assert [one.reason[:5] for one in skipped] == ["rank "]
    engine.scorer = scorer


def run(case: Case, ranks: Ranks, file: Path) -> dict[str, Any]:
    policy = load_policy(tiny_config("qwen2_vl", **case.policy), corpus=CORPUS, seed=0)
    start = {name: tensor.clone() for name, tensor in policy.trained_weights().items()}
    groups = played(policy)
    reference = policy.reference()
    expected = learn(case, build_engine(UPDATE, policy, 4), course(groups), reference, Ranks())
    policy.load_weights(start)
    shared = [replace(g, rank=r) for g, r in zip(groups, case.players, strict=True)]
    config = {"config": str(file)} if case.engine["stage"] == 3 else {}
    kind = {"name": "deepspeed", **case.engine, **config}
    engine = build_engine(UPDATE, policy, 4, ranks, kind)
    shards = {p.numel() for p in policy.model.parameters()}
    if case.breaks:
        break_once(engine, case, shared, ranks)
    steps = course(shared)
    if case.then is not None:
        learn(case, engine, steps[:1], reference, ranks)
        (state,) = ranks.gather([engine.state()])[0]
        engine.close()
        engine = build_engine(UPDATE, policy, 4, ranks, {"name": "deepspeed", **case.then})
        engine.load_state(*state)
        steps = steps[1:]
    result = learn(case, engine, steps, reference, ranks)
    engine.close()
    leftovers = [n for p in policy.model.parameters() for n in vars(p) if n.startswith("ds_")]
    with torch.no_grad():
        policy.model(input_ids=torch.tensor([[1, 2, 3]]))  # an ordinary model again
    gaps = {n: distance(result[n], t) for n, t in expected.items()} if ranks.first else {}
    return {"gaps": gaps, "sharded": shards == {0}, "leftovers": leftovers}


def distance(tensor: Tensor, expected: Tensor) -> float:
    return float((tensor - expected).norm() / expected.norm().clamp(min=1e-12))


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    file = folder / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    return {name: run(case, ranks, file) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    first: dict[str, Any] = run_ranks(work, tmp_path_factory.mktemp("deepspeed"))[0]
    return first


@pytest.mark.parametrize("name", CASES)
def test_weights_and_moments_equal_those_of_one_process(results: dict[str, Any], name: str) -> None:
    gaps = results[name]["gaps"]
    worst = max(gaps, key=lambda n: gaps[n])
    assert gaps[worst] <= TOLERANCE, worst


@pytest.mark.parametrize("name", CASES)
def test_stage_3_shards_weights_and_a_closed_engine_leaves_an_ordinary_model(
    results: dict[str, Any], name: str
) -> None:
    assert results[name]["sharded"] == (CASES[name].engine["stage"] == 3)
    assert results[name]["leftovers"] == []
