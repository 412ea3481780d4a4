"""Engines that shard take on two ranks the same steps as `single` on one: every ZeRO stage and FSDP2, images on some ranks
only, ranks without work, references, steps that are skipped, and states that one engine saves and another loads."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import LoraConfig
from vlrft.distributed.ranks import Ranks
from vlrft.testing.engine_steps import EngineCase, compare_with_single, sharding_engine
from vlrft.testing.process_ranks import run_ranks

TOLERANCE = 1e-5  # relative, of each tensor
IDLE = (0, 0, 0, 0, 0)
IMAGES_ON_1 = (0, 1, 0, 1, 1)
LORA = {"lora": LoraConfig(rank=4, target_modules=("q_proj", "v_proj"))}
FSDP = {"name": "fsdp"}
CASES = {
    "fsdp, images on one rank": EngineCase(
        engine=FSDP, owners=IMAGES_ON_1, policy={"activation_checkpointing": True}, breaks=True
    ),
    "fsdp, frozen tower, a rank without work": EngineCase(
        engine={**FSDP, "reshard_after_forward": False},
        algorithm="gvpo",
        owners=IDLE,
        family="qwen3_vl",
        policy={"freeze": ["vision"]},
    ),
    "fsdp, offloaded, adapters": EngineCase(
        engine={**FSDP, "offload": "cpu"}, algorithm="grpo", policy=LORA
    ),
    "fsdp, then single": EngineCase(engine=FSDP, then={"name": "single"}),
}
DEEPSPEED_CASES = {
    "stage 1": EngineCase(engine={"stage": 1}, algorithm="cw_grpo"),
    "stage 2, whole groups, a rank without work": EngineCase(
        engine={"stage": 2}, algorithm="gvpo", owners=IDLE
    ),
    "stage 2, gmpo": EngineCase(engine={"stage": 2}, algorithm="gmpo", family="glm4v", breaks=True),
    "stage 2, offloaded, images late": EngineCase(
        engine={"stage": 2, "offload": "cpu"}, algorithm="grpo", owners=IDLE
    ),
    "stage 3, images on one rank": EngineCase(
        engine={"stage": 3},
        owners=IMAGES_ON_1,
        family="qwen3_5",
        policy={"activation_checkpointing": True},
        breaks=True,
    ),
    "stage 3, images late, a rank without work": EngineCase(
        engine={"stage": 3}, algorithm="grpo", owners=IDLE, family="qwen3_vl"
    ),
    "stage 3, adapters": EngineCase(engine={"stage": 3}, algorithm="grpo", policy=LORA),
    "stage 2, then fsdp": EngineCase(engine={"stage": 2}, then=FSDP),
    "fsdp, then stage 3": EngineCase(engine=FSDP, then={"stage": 3}),
    "stage 1, then stage 3": EngineCase(engine={"stage": 1}, then={"stage": 3}),
}
if find_spec("deepspeed") is not None:
    CASES |= DEEPSPEED_CASES


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    results = {}
    for name, case in CASES.items():
        then = None if case.then is None else sharding_engine(case.then, folder)
        full = replace(case, engine=sharding_engine(case.engine, folder), then=then)
        results[name] = compare_with_single(full, ranks)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    first: dict[str, Any] = run_ranks(work, tmp_path_factory.mktemp("sharded"))[0]
    return first


@pytest.mark.parametrize("name", CASES)
def test_weights_and_moments_equal_those_of_one_process(results: dict[str, Any], name: str) -> None:
    gaps = results[name]["gaps"]
    worst = max(gaps, key=lambda n: gaps[n])
    assert gaps[worst] <= TOLERANCE, worst


@pytest.mark.parametrize("name", CASES)
def test_weights_are_sharded_and_a_closed_engine_leaves_an_ordinary_model(
    results: dict[str, Any], name: str
) -> None:
    engine = CASES[name].engine
    assert results[name]["sharded"] == (engine.get("name") == "fsdp" or engine.get("stage") == 3)
    assert results[name]["leftovers"] == []


@pytest.mark.parametrize("name", CASES)
def test_weights_that_are_read_one_at_a_time_are_bit_for_bit_those_of_the_complete_model(
    results: dict[str, Any], name: str
) -> None:
    result = results[name]
    assert result["differing"] == []
    assert result["tensors"]["merged"] == result["tensors"]["base"] > 0
    assert bool(result["tensors"]["adapters"]) == ("lora" in CASES[name].policy)


@pytest.mark.parametrize("name", CASES)
def test_no_more_than_a_layer_or_all_that_is_outside_of_layers_is_gathered_to_be_read(
    results: dict[str, Any], name: str
) -> None:
    result = results[name]
    if results[name]["sharded"]:
        assert 0 < result["complete"] <= max(result["layer"], result["others"])
    else:
        assert result["complete"] == 0  # nothing is gathered: each rank has all weights
    assert result["left"] == 0
