"""Memory of a rank under DeepSpeed, by hand; `benchmarks/ranks/rank_memory.py` measures the same sums."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.memory.shapes import DECODER, MODEL
from vlrft.config import UpdateConfig
from vlrft.engine import ENGINES, find_engine, planned_choices, rank_memory
from vlrft.memory.rank_memory import GradientMemory, RankMemory, add_parts
from vlrft.memory.shapes import ModelShape, WeightBytes
from vlrft.schema.errors import ConfigError

# 100 trained numbers in three parameters; on two ranks 50 each.
SIZES = (60, 30, 10)
FLOAT = replace(
    MODEL, weights=WeightBytes(total=400, trained=400, embedding=0, base=400, sizes=SIZES)
)
HALF = replace(
    MODEL,
    element=2,
    weights=WeightBytes(total=200, trained=200, embedding=0, base=200, half=200, sizes=SIZES),
)


def memory_of(engine: dict[str, Any], model: ModelShape, ranks: int = 2) -> RankMemory:
    kind = find_engine({"name": "deepspeed", **engine})
    return rank_memory(kind, UpdateConfig(), model, ranks)[0]


@pytest.mark.parametrize("stage", [1, 2])
def test_a_rank_holds_its_shard_of_the_optimiser_and_of_float32_copies(stage: int) -> None:
    memory = memory_of({"stage": stage}, FLOAT)
    assert memory.held == {"weights": 400, "float32 copies": 200, "optimiser moments": 400}
    assert memory_of({"stage": stage}, FLOAT, 4).held["optimiser moments"] == 200
    assert memory.moments_from_start
    assert (dict(memory.self_check), dict(memory.host)) == ({}, {})


def test_stage_1_does_not_shard_gradients() -> None:
    memory = memory_of({"stage": 1}, FLOAT)
    assert memory.gradients == GradientMemory(fresh=400, summed=400, in_place=True)
    assert memory.step == {"gradients": 400, "communication buckets": 400}
    half = memory_of({"stage": 1}, HALF)
    assert half.held == {
        "weights": 200,
        "float32 copies": 200,
        "gradients": 400,  # float32 sums, all along
        "optimiser moments": 400,
    }
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)


def test_stage_2_shards_gradients() -> None:
    memory = memory_of({"stage": 2}, FLOAT)
    assert memory.gradients == GradientMemory(fresh=200, summed=200, in_place=False)
    assert memory.step == {"gradients": 400}
    half = memory_of({"stage": 2}, HALF)
    assert half.held == {"weights": 200, "float32 copies": 200, "optimiser moments": 400}
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)
    assert half.step == {"gradients": 200}


@pytest.mark.parametrize(("model", "bucket"), [(FLOAT, 400), (HALF, 200)])
def test_a_bucket_and_its_copies_take_eight_bytes_a_number(model: ModelShape, bucket: int) -> None:
    memory = memory_of({"stage": 2}, model)
    assert memory.backward == {"communication buckets": bucket}
    assert memory.reducing == {"communication buckets": 800 - bucket}
    assert memory.reduce_from == 1


def test_offload_leaves_weights_and_a_buffer_for_the_largest_gradient_on_the_device() -> None:
    memory = memory_of({"stage": 2, "offload": "cpu"}, FLOAT)
    assert memory.held == {"weights": 400, "communication buckets": 240}
    assert memory.host == {
        "weights": 200 + 240,
        "float32 copies": 200,
        "gradients": 400,
        "optimiser moments": 400,
    }
    half = memory_of({"stage": 2, "offload": "cpu"}, HALF)
    assert half.host["gradients"] == 200
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)


def test_stage_3_shards_weights_and_gathers_them_to_sample(tmp_path: Path) -> None:
    file = tmp_path / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    memory = memory_of({"stage": 3, "config": str(file)}, HALF)
    assert memory.held == {
        "weights": 100,
        "float32 copies": 200,
        "gradients": 200,
        "optimiser moments": 400,
        "communication buckets": 400,
    }
    assert memory.self_check == memory.sampling == {"gathered weights": 200}
    assert memory.passes == {"gathered weights": 400}  # and as many gathered ahead
    assert memory.step == {"gradients": 200}
    assert memory.reducing == {"communication buckets": 800}
    offloaded = memory_of({"stage": 3, "offload": "cpu", "config": str(file)}, HALF)
    assert offloaded.held == {"weights": 100, "communication buckets": 400}
    assert offloaded.host == {"float32 copies": 200, "gradients": 400, "optimiser moments": 400}


def test_a_rank_that_samples_by_layer_gathers_at_most_the_widest_layer() -> None:
    memory = memory_of({"stage": 3, "rollout": "hooks"}, HALF)
    assert memory.sampling == {"gathered weights": 2 * 8 * 100}  # H V of the embeddings
    deep = replace(HALF, decoder=replace(DECODER, vocab=10))
    layer = 8 * (8 + 4 + 4) + 8 * 8 + 3 * 8 * 16
    memory = memory_of({"stage": 3, "rollout": "hooks"}, deep)
    assert memory.sampling == {"gathered weights": 2 * layer}
    assert memory.self_check == {"gathered weights": 0}


def test_settings_that_a_run_refuses_have_no_plan() -> None:
    with pytest.raises(ConfigError, match="stage 2 does not shard them"):
        memory_of({"stage": 2, "rollout": "hooks"}, HALF)
    with pytest.raises(ConfigError, match="always keeps float32 copies"):
        rank_memory(find_engine("deepspeed"), UpdateConfig(master_weights=False), HALF, 2)


def test_small_parameters_are_neither_sharded_nor_gathered() -> None:
    memory = memory_of({"stage": 3}, HALF)
    assert memory.held["weights"] == 100 + 200
    assert memory.self_check == {"gathered weights": 0}


def test_a_file_sets_the_bucket_size(tmp_path: Path) -> None:
    file = tmp_path / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"reduce_bucket_size": 25}}))
    memory = memory_of({"stage": 2, "config": str(file)}, FLOAT)
    assert memory.backward == {"communication buckets": 100}
    assert memory.reduce_from == 0.25
    # Gradients of the rank's shard that are copied already, in addition to those that wait.
    assert memory_of({"stage": 1, "config": str(file)}, FLOAT).step["gradients"] == 400 + 200
    file.write_text(json.dumps({"zero_optimization": {"stage": 1}}))
    with pytest.raises(ConfigError, match=r"engine\.stage says 2"):
        memory_of({"stage": 2, "config": str(file)}, FLOAT)


def test_rank_0_gathers_the_optimiser_to_save_it() -> None:
    assert memory_of({"stage": 2}, FLOAT).saving == {"weights": 0, "optimiser moments": 800}
    gpu = replace(FLOAT, gpu=True)
    assert memory_of({"stage": 2}, gpu).saving == {"weights": 0, "optimiser moments": 800}
    memory = memory_of({"stage": 3}, HALF)
    assert memory.saving == {"weights": 200, "float32 copies": 400, "optimiser moments": 800}
    assert memory.gathering == {"float32 copies": 240, "optimiser moments": 480}


def test_every_shipped_engine_has_a_memory_model_for_each_of_its_choices() -> None:
    assert {choice["name"] for choice in planned_choices()} == set(ENGINES)
    for choice in planned_choices():
        memory, modelled = rank_memory(find_engine(choice), UpdateConfig(), HALF, 2)
        assert modelled
        total = add_parts(memory.held, memory.host)
        assert total["weights"] >= 100
        assert total["optimiser moments"] == (800 if choice["name"] == "single" else 400)
