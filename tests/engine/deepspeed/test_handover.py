"""A state that one engine saves and another loads: parameters without a gradient so far, adapters of a bfloat16 model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from vlrft.algorithms import ALGORITHMS
from vlrft.config import LoraConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import TrainEngine, build_engine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.testing.engine_steps import (
    BUDGET,
    UPDATE,
    ragged_groups,
    relative_distance,
    step_batches,
)
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.update import update

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs vlrft[deepspeed]")
ENGINES = [{"name": "deepspeed", "stage": stage} for stage in (1, 2, 3)]


def step(engine: TrainEngine, *, text: bool = False) -> None:
    groups = ragged_groups(engine.policy)
    batches = step_batches(groups[:1] if text else groups, "gpg", ALONE)
    _, skipped = update(engine, batches, ALGORITHMS["gpg"], BUDGET)
    assert not skipped


def text_first(kind: dict[str, Any]) -> dict[str, float]:
    """A step of text by `single`, then one with images by the other engine: gaps to `single` in both steps."""

    def course(second: dict[str, Any]) -> dict[str, torch.Tensor]:
        policy = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=0)
        first = build_engine(UPDATE, policy, 4)
        step(first, text=True)
        state = first.state()
        assert any("visual" in name for name in policy.trained_names)
        assert not any("visual" in name for name in state[0])
        engine = build_engine(UPDATE, policy, 4, ALONE, second)
        engine.load_state(*state)
        step(engine)
        engine.close()
        return {n: t.clone() for n, t in policy.trained_weights().items()}

    trained, expected = course(kind), course({"name": "single"})
    language = [name for name in expected if "visual" not in name]
    return {name: relative_distance(trained[name], expected[name]) for name in language}


def adapters(kind: dict[str, Any]) -> dict[str, bool]:
    """Adapters of a bfloat16 model, trained by another engine, loaded by `single` and then by the other again."""
    config = tiny_config("qwen2_vl", dtype="bfloat16", lora=LoraConfig(rank=4))
    policy = load_policy(config, corpus=CORPUS, seed=0)
    dtypes = {name: tensor.dtype for name, tensor in policy.trained_weights().items()}
    before = weights_copy(policy)
    engine = build_engine(UPDATE, policy, 4, ALONE, kind)
    start = weights(engine)
    step(engine)
    state, counters = engine.state()
    with engine.unsharded_on_first_rank():
        stored = weights_copy(policy)
    goes_on = {t.dtype for t in policy.trained_weights().values()} == {torch.bfloat16}
    engine.close()
    closed = weights_copy(policy)
    policy.load_weights(stored)  # as a checkpoint stores them
    single = build_engine(UPDATE, policy, 4)
    single.load_state(dict(state), counters)
    again = weights_copy(policy)
    back = build_engine(UPDATE, policy, 4, ALONE, kind)
    back.load_state(*single.state())
    return {
        "float32": set(dtypes.values()) == {torch.float32},
        "begins": same(start, before),
        "moves": not same(weights_of(state), before),
        "stored": same(stored, weights_of(state)),
        "trains on": goes_on,
        "left": same(closed, weights_of(state)),
        "single": same(again, weights_of(state)),
        "kept no copy": not any(name.endswith("/weight") for name in single.state()[0]),
        "back": same(weights(back), weights_of(state)),
    }


def weights(engine: TrainEngine) -> dict[str, torch.Tensor]:
    return weights_of(engine.state()[0])


def weights_of(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n.removesuffix("/weight"): t for n, t in state.items() if n.endswith("/weight")}


def weights_copy(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.trained_weights().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(t, other[n]) for n, t in one.items())


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    return {
        "text first": [text_first(kind) for kind in ENGINES],
        "adapters": [adapters(kind) for kind in ENGINES],
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (one,) = run_ranks(work, tmp_path_factory.mktemp("handover"), size=1)
    return dict(one)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_parameters_without_a_gradient_start_with_the_other_engine(
    results: dict[str, Any], stage: int
) -> None:
    assert max(results["text first"][stage - 1].values()) <= 1e-5


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_adapters_of_a_bfloat16_model_keep_every_bit(results: dict[str, Any], stage: int) -> None:
    failed = [name for name, passed in results["adapters"][stage - 1].items() if not passed]
    assert failed == []
