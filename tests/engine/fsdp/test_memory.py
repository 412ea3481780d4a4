"""Memory of a rank under FSDP2, by hand; `benchmarks/ranks/rank_memory.py` measures the same sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.memory.shapes import MODEL
from vlrft.config import UpdateConfig
from vlrft.engine import find_engine, rank_memory
from vlrft.memory.rank_memory import GradientMemory, RankMemory
from vlrft.memory.shapes import ModelShape, WeightBytes

# Three layers of H (2A + 2K + 3I) = 8 (16 + 8 + 48) numbers, and tied embeddings of H V = 800: 2528, 1264 of each rank.
LAYER, MATRIX, NUMBERS = 576, 800, 2528
SIZES = (LAYER, LAYER, LAYER, MATRIX)


def model_of(element: int, half: bool) -> ModelShape:
    size = element * NUMBERS
    weights = WeightBytes(
        total=size, trained=size, embedding=0, base=size, half=size * half, sizes=SIZES
    )
    return replace(MODEL, tower=None, element=element, weights=weights, gpu=True)


PLAIN = UpdateConfig()
FLOAT, HALF = model_of(4, half=False), model_of(2, half=True)


def memory_of(model: ModelShape, update: UpdateConfig = PLAIN, **engine: Any) -> RankMemory:
    return rank_memory(find_engine({"name": "fsdp", **engine}), update, model, 2)[0]


def test_a_rank_holds_its_shard_of_everything() -> None:
    memory = memory_of(FLOAT)
    assert memory.held == {"weights": 4 * 1264, "optimiser moments": 8 * 1264}
    assert memory.gradients == GradientMemory(fresh=4 * 1264, summed=4 * 1264, in_place=True)
    assert memory.step == {"gradients": 4 * 1264}
    assert not memory.moments_from_start
    assert memory.host == {}


def test_shards_of_a_half_precision_model_are_float32_unless_the_config_says_otherwise() -> None:
    assert memory_of(HALF).held == memory_of(FLOAT).held
    plain = memory_of(HALF, UpdateConfig(master_weights=False))
    assert plain.held == {"weights": 2 * 1264, "optimiser moments": 4 * 1264}


def test_a_pass_gathers_the_head_and_three_layers_or_all_of_them() -> None:
    # The running layer, the one before it, and the buffer of the next.
    assert memory_of(HALF).passes == {"gathered weights": 2 * (MATRIX + 3 * LAYER)}
    whole = memory_of(HALF, reshard_after_forward=False)
    assert whole.passes == {"gathered weights": 2 * (NUMBERS + LAYER)}
    assert (
        memory_of(HALF).sampling == memory_of(HALF).self_check == {"gathered weights": 2 * NUMBERS}
    )


def test_gradients_of_the_head_are_reduced_through_a_buffer_and_into_a_shard() -> None:
    assert memory_of(HALF).reducing == {"communication buckets": (4 + 2) * MATRIX}
    narrow = memory_of(HALF, reduce_dtype="bfloat16")
    assert narrow.reducing == {"communication buckets": (2 + 2) * MATRIX}
    assert memory_of(HALF).backward == {"gradients": 2 * LAYER}


def test_adapters_are_sharded_in_float32_beside_the_frozen_weights() -> None:
    adapters = 100
    weights = WeightBytes(
        total=2 * NUMBERS + 4 * adapters,
        trained=4 * adapters,
        embedding=0,
        base=2 * NUMBERS,
        sizes=(adapters,),
    )
    memory = memory_of(replace(HALF, weights=weights))
    assert memory.held == {"weights": NUMBERS + 200, "optimiser moments": 400}
    assert memory.reducing == {"communication buckets": 0}
    assert memory.backward == {"gradients": 2 * LAYER * 400 // (2 * NUMBERS + 400)}


def test_offloaded_shards_are_in_host_memory_of_a_gpu_and_where_they_are_on_a_cpu() -> None:
    memory = memory_of(HALF, offload="cpu")
    assert memory.held == {"weights": 0}
    assert memory.host == {"weights": 5056, "optimiser moments": 10112, "gradients": 5056}
    assert (memory.step, memory.gradients.summed) == ({}, 0)
    on_cpu = replace(HALF, gpu=False)
    assert memory_of(on_cpu, offload="cpu") == memory_of(on_cpu)


def test_rank_0_gathers_a_checkpoint_in_host_memory() -> None:
    memory = memory_of(HALF)
    assert memory.saving == {
        "weights": 2 * NUMBERS,
        "float32 copies": 4 * NUMBERS,
        "optimiser moments": 8 * NUMBERS,
    }
    assert memory.gathering == {"gathered weights": 2 * 4 * MATRIX}
    assert "float32 copies" not in memory_of(FLOAT).saving
