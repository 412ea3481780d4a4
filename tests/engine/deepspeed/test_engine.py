"""DeepSpeed on two ranks takes the same steps as `single` on one: every ZeRO stage, images on some ranks only, ranks
without work, references, steps that are skipped, and states that one engine saves and another loads."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import LoraConfig
from vlrft.distributed.ranks import Ranks
from vlrft.testing.engine_steps import EngineCase, compare_with_single, deepspeed_engine
from vlrft.testing.process_ranks import run_ranks

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs vlrft[deepspeed]")

TOLERANCE = 1e-5  # relative, of each tensor
IDLE = (0, 0, 0, 0, 0)
IMAGES_ON_1 = (0, 1, 0, 1, 1)
CASES = {
    "stage 1": EngineCase(engine={"stage": 1}, algorithm="cw_grpo"),
    "stage 2, whole groups, a rank without work": EngineCase(
        engine={"stage": 2}, algorithm="gvpo", owners=IDLE
    ),
    "stage 2, gmpo": EngineCase(engine={"stage": 2}, algorithm="gmpo", breaks=True),
    "stage 2, offloaded, images late": EngineCase(
        engine={"stage": 2, "offload": "cpu"}, algorithm="grpo", owners=IDLE
    ),
    "stage 3, images on one rank": EngineCase(
        engine={"stage": 3},
        owners=IMAGES_ON_1,
        policy={"activation_checkpointing": True},
        breaks=True,
    ),
    "stage 3, images late, a rank without work": EngineCase(
        engine={"stage": 3}, algorithm="grpo", owners=IDLE
    ),
    "stage 3, adapters": EngineCase(
        engine={"stage": 3}, algorithm="grpo", policy={"lora": LoraConfig(rank=4)}
    ),
    "stage 2, then stage 1": EngineCase(engine={"stage": 2}, then={"stage": 1}),
    "stage 1, then stage 3": EngineCase(engine={"stage": 1}, then={"stage": 3}),
}


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    results = {}
    for name, case in CASES.items():
        then = None if case.then is None else {"name": "deepspeed", **case.then}
        full = replace(case, engine=deepspeed_engine(case.engine, folder), then=then)
        results[name] = compare_with_single(full, ranks)
    return results


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
