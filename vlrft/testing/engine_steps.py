"""Steps of a sharded engine on several ranks against the same steps of the engine `single` on one process.

Each rank calls `compare_with_single(case, ranks)`; `process_ranks.run_ranks` starts ranks as processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import UpdateConfig
from vlrft.data.atomic import write_atomically
from vlrft.distributed.ranks import Ranks
from vlrft.engine import TrainEngine, build_engine
from vlrft.engine.deepspeed.zero3 import gathering_units
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.policy.policy_weights import PolicyWeights
from vlrft.schema import Group
from vlrft.testing.small_policies import CORPUS, group_of, image_group, tiny_config
from vlrft.trainer.batch import Batch, make_batches
from vlrft.trainer.update import update

# Adam's ε is as large as gradient noise: entries whose gradient is 0 but for rounding would otherwise change by ± lr.
UPDATE = UpdateConfig(lr=1e-3, weight_decay=0.1, max_grad_norm=0.5, eps=1e-3)
BUDGET = 60  # tokens of a micro-batch: several per step, the first without images
FLAT = 3  # index of the group whose rewards are equal


@dataclass(frozen=True, kw_only=True)
class EngineCase:
    """An engine, an algorithm, and the rank that owns each of the five groups of `ragged_groups`."""

    engine: Mapping[str, Any]  # as in a config: name and settings
    algorithm: str = "gpg"
    owners: tuple[int, ...] = (0, 0, 1, 1, 0)
    family: str = "qwen2_vl"
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])  # PolicyConfig's fields
    breaks: bool = False  # a step that is not finite comes first
    then: Mapping[str, Any] | None = None  # the engine that continues after the first step


def sharding_engine(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The config of an engine, under which stage 3 of DeepSpeed, the engine where no name is given, shards every parameter.

    It leaves small parameters whole, and nearly all of a small policy's are. Its file is written to `folder`.
    """
    engine = {"name": "deepspeed", **settings}
    if engine.get("stage") == 3:
        file = folder / "deepspeed.json"
        zero = {"stage3_param_persistence_threshold": 0}
        write_atomically(
            file, json.dumps({"zero_optimization": zero}).encode()
        )  # all ranks write it
        engine["config"] = str(file)
    return engine


def ragged_groups(policy: Policy) -> list[Group]:
    """Five groups of different sizes, with and without images; the rewards of one are equal."""
    chat = policy.chat
    return [
        group_of(chat, "red?", [1.0, 0.0, 0.5], ["red", "a blue one", ""]),
        image_group(chat, "which?", [1.0, 0.25], ["x", "yes"]),
        group_of(chat, "how many?", [0.0, 1.0, 0.0, 0.0], ["1", "2", "three", "4 5"]),
        image_group(chat, "none?", [0.5, 0.5], ["no", "none"]),
        image_group(chat, "two?", [0.0, 1.0, 0.0], ["x", "yes it is", "no"], images=2),
    ]


def step_batches(groups: Sequence[Group], name: str, ranks: Ranks) -> list[Batch]:
    """The batches of one step of the algorithm `name`."""
    algorithm = ALGORITHMS[name]
    advantages = estimate_rows(groups, algorithm.estimator, max_tokens=8)
    return make_batches(groups, advantages, algorithm, temperature=0.9, max_tokens=8, ranks=ranks)


def relative_distance(tensor: Tensor, expected: Tensor) -> float:
    """‖tensor - expected‖ / ‖expected‖."""
    return float((tensor - expected).norm() / expected.norm().clamp(min=1e-12))


def compare_with_single(case: EngineCase, ranks: Ranks) -> dict[str, Any]:
    """The same steps by `single` and by the case's engine, on a small policy.

    Returns `gaps`, the relative distance of each weight and moment (on the first rank); `sharded`, whether every
    parameter is sharded while the engine is open; `leftovers`, attributes that the closed engine has left on
    parameters; and what `read_in_turn` returns, before the last steps.
    """
    policy = load_policy(tiny_config(case.family, **case.policy), corpus=CORPUS, seed=0)
    start = {name: tensor.clone() for name, tensor in policy.trained_weights().items()}
    groups = ragged_groups(policy)
    reference = policy.reference()
    expected: dict[str, Tensor] = {}
    if ranks.first:
        single = build_engine(UPDATE, policy, 4)
        expected = _train(case, single, _groups_by_step(groups), reference, Ranks())
        policy.load_weights(start)
    shared = [replace(g, rank=r) for g, r in zip(groups, case.owners, strict=True)]
    engine = build_engine(UPDATE, policy, 4, ranks, dict(case.engine))
    sizes = {p.numel() for p in policy.model.parameters()}
    in_turn = read_in_turn(engine)
    if case.breaks:
        _take_broken_step(engine, case, shared, ranks)
    steps = _groups_by_step(shared)
    if case.then is not None:
        _train(case, engine, steps[:1], reference, ranks)
        (state,) = ranks.gather([engine.state()])[0]
        engine.close()
        engine = build_engine(UPDATE, policy, 4, ranks, dict(case.then))
        engine.load_state(*state)
        steps = steps[1:]
    result = _train(case, engine, steps, reference, ranks)
    engine.close()
    leftovers = [n for p in policy.model.parameters() for n in vars(p) if n.startswith("ds_")]
    with torch.no_grad():
        policy.model(input_ids=torch.tensor([[1, 2, 3]]))  # an ordinary model again
    gaps = {name: relative_distance(result[name], tensor) for name, tensor in expected.items()}
    return {"gaps": gaps, "sharded": sizes == {0}, "leftovers": leftovers} | in_turn


def read_in_turn(engine: TrainEngine) -> dict[str, Any]:
    """The weights as a rollout engine reads them, one at a time.

    Returns `differing`, the parts whose tensors are not bit for bit those of the complete model; `tensors`, how many each part
    has; `complete`, the most elements that were complete at once, and `left`, those that are afterwards, both in addition to
    those before; `layer`, elements of the largest layer; and `others`, those outside of layers.
    """
    model = engine.policy.model
    with engine.unsharded():
        expected = {
            part: {name: tensor.clone() for name, tensor in tensors}
            for part, tensors in _parts(PolicyWeights(model))
        }
        layers = [elements(unit) for unit, _ in gathering_units(model) if _is_layer(unit, model)]
        others = elements(model) - sum(layers)
    before, complete, differing = elements(model), [0], []
    for part, tensors in _parts(engine.policy.weights(engine.gather_in_turn)):
        read = {}
        for name, tensor in tensors:
            complete.append(elements(model) - before)
            read[name] = tensor.clone()
        if not same_tensors(read, expected[part]):
            differing.append(part)
    return {
        "differing": differing,
        "tensors": {part: len(tensors) for part, tensors in expected.items()},
        "complete": max(complete),
        "left": elements(model) - before,
        "layer": max(layers),
        "others": others,
    }


def _parts(weights: PolicyWeights) -> Iterator[tuple[str, Iterator[tuple[str, Tensor]]]]:
    yield "merged", iter(weights)
    yield "base", weights.base()
    yield "adapters", weights.adapters()


def _is_layer(unit: nn.Module, model: nn.Module) -> bool:
    return any(
        unit is child for m in model.modules() if isinstance(m, nn.ModuleList) for child in m
    )


def elements(module: nn.Module) -> int:
    """The elements that this rank holds of the module's parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def same_tensors(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether the names and the bits are the same."""
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


def _groups_by_step(groups: Sequence[Group]) -> list[Sequence[Group]]:
    """The groups of each step; the second step has no gradient."""
    return [groups, groups[FLAT : FLAT + 1], groups]


def _train(
    case: EngineCase,
    engine: TrainEngine,
    steps: Sequence[Sequence[Group]],
    reference: Policy,
    ranks: Ranks,
) -> dict[str, Tensor]:
    """Weights and optimiser state after the steps."""
    algorithm = ALGORITHMS[case.algorithm]
    for groups in steps:
        batches = step_batches(groups, case.algorithm, ranks)
        _, skipped = update(engine, batches, algorithm, BUDGET, reference)
        assert not skipped
    with engine.unsharded():
        weights = {name: tensor.clone() for name, tensor in engine.policy.trained_weights().items()}
    return weights | engine.state()[0]


def _take_broken_step(
    engine: TrainEngine, case: EngineCase, groups: Sequence[Group], ranks: Ranks
) -> None:
    """A step whose first micro-batch is finite and whose second one is not: it must change nothing."""
    scorer, calls = engine.scorer, iter(range(10))
    assert scorer is not None

    def broken(*inputs: Any) -> tuple[Tensor, Tensor]:
        logprobs, entropy = scorer(*inputs)
        return logprobs * (float("nan") if next(calls) > 0 else 1.0), entropy

    engine.scorer = broken
    batches = step_batches(groups, case.algorithm, ranks)
    _, skipped = update(engine, batches, ALGORITHMS[case.algorithm], BUDGET)
    assert [one.reason[:5] for one in skipped] == ["rank "]
    engine.scorer = scorer
