"""What a rank holds under DeepSpeed, by hand; `benchmarks/ranks/rank_memory.py` measured the same sums."""

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


def held(engine: dict[str, Any], model: ModelShape, ranks: int = 2) -> RankMemory:
    choice = find_engine({"name": "deepspeed", **engine})
    return rank_memory(choice, UpdateConfig(), model, ranks)[0]


@pytest.mark.parametrize("stage", [1, 2])
def test_the_optimiser_is_a_ranks_part_and_has_a_copy_of_float32_too(stage: int) -> None:
    share = held({"stage": stage}, FLOAT)
    assert share.held == {"weights": 400, "float32 copies": 200, "optimiser moments": 400}
    assert held({"stage": stage}, FLOAT, 4).held["optimiser moments"] == 200
    assert share.moments_from_start
    assert (dict(share.self_check), dict(share.host)) == ({}, {})


def test_stage_1_keeps_whole_gradients() -> None:
    share = held({"stage": 1}, FLOAT)
    assert share.gradients == GradientMemory(fresh=400, summed=400, in_place=True)
    assert share.step == {"gradients": 400, "communication buckets": 400}
    half = held({"stage": 1}, HALF)
    assert half.held == {
        "weights": 200,
        "float32 copies": 200,
        "gradients": 400,  # sums in float32, all along
        "optimiser moments": 400,
    }
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)


def test_stage_2_keeps_its_part_of_the_gradients() -> None:
    share = held({"stage": 2}, FLOAT)
    assert share.gradients == GradientMemory(fresh=200, summed=200, in_place=False)
    assert share.step == {"gradients": 400}
    half = held({"stage": 2}, HALF)
    assert half.held == {"weights": 200, "float32 copies": 200, "optimiser moments": 400}
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)
    assert half.step == {"gradients": 200}


@pytest.mark.parametrize(("model", "own"), [(FLOAT, 400), (HALF, 200)])
def test_a_bucket_and_its_copies_take_eight_bytes_a_number(model: ModelShape, own: int) -> None:
    share = held({"stage": 2}, model)
    assert share.backward == {"communication buckets": own}
    assert share.reducing == {"communication buckets": 800 - own}
    assert share.reduce_from == 1


def test_offload_leaves_the_weights_and_a_place_for_the_largest_gradient() -> None:
    share = held({"stage": 2, "offload": "cpu"}, FLOAT)
    assert share.held == {"weights": 400, "communication buckets": 240}
    assert share.host == {
        "weights": 200 + 240,
        "float32 copies": 200,
        "gradients": 400,
        "optimiser moments": 400,
    }
    half = held({"stage": 2, "offload": "cpu"}, HALF)
    assert half.host["gradients"] == 200
    assert half.gradients == GradientMemory(fresh=200, summed=200, in_place=True)


def test_stage_3_shards_all_and_gathers_for_sampling(tmp_path: Path) -> None:
    file = tmp_path / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage3_param_persistence_threshold": 0}}))
    share = held({"stage": 3, "config": str(file)}, HALF)
    assert share.held == {
        "weights": 100,
        "float32 copies": 200,
        "gradients": 200,
        "optimiser moments": 400,
        "communication buckets": 400,
    }
    assert share.self_check == share.sampling == {"gathered weights": 200}
    assert share.passes == {"gathered weights": 400}  # and all on their way
    assert share.step == {"gradients": 200}
    assert share.reducing == {"communication buckets": 800}
    away = held({"stage": 3, "offload": "cpu", "config": str(file)}, HALF)
    assert away.held == {"weights": 100, "communication buckets": 400}
    assert away.host == {"float32 copies": 200, "gradients": 400, "optimiser moments": 400}


def test_a_rank_that_samples_by_layer_has_the_widest_at_once() -> None:
    share = held({"stage": 3, "rollout": "hooks"}, HALF)
    assert share.sampling == {"gathered weights": 2 * 8 * 100}  # H V of the embeddings
    deep = replace(HALF, decoder=replace(DECODER, vocab=10))
    layer = 8 * (8 + 4 + 4) + 8 * 8 + 3 * 8 * 16
    share = held({"stage": 3, "rollout": "hooks"}, deep)
    assert share.sampling == {"gathered weights": 2 * layer}
    assert share.self_check == {"gathered weights": 0}


def test_what_a_run_would_refuse_has_no_plan() -> None:
    with pytest.raises(ConfigError, match="stage 2 shards none"):
        held({"stage": 2, "rollout": "hooks"}, HALF)
    with pytest.raises(ConfigError, match="always keeps float32 copies"):
        rank_memory(find_engine("deepspeed"), UpdateConfig(master_weights=False), HALF, 2)


def test_small_parameters_stay_whole_and_are_not_gathered() -> None:
    share = held({"stage": 3}, HALF)
    assert share.held["weights"] == 100 + 200
    assert share.self_check == {"gathered weights": 0}


def test_a_file_says_how_large_buckets_are(tmp_path: Path) -> None:
    file = tmp_path / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"reduce_bucket_size": 25}}))
    share = held({"stage": 2, "config": str(file)}, FLOAT)
    assert share.backward == {"communication buckets": 100}
    assert share.reduce_from == 0.25
    # What is already copied into its own part lies beside the gradients that still wait.
    assert held({"stage": 1, "config": str(file)}, FLOAT).step["gradients"] == 400 + 200
    file.write_text(json.dumps({"zero_optimization": {"stage": 1}}))
    with pytest.raises(ConfigError, match=r"engine\.stage says 2"):
        held({"stage": 2, "config": str(file)}, FLOAT)


def test_the_first_rank_gathers_the_optimiser_to_save_it() -> None:
    assert held({"stage": 2}, FLOAT).saving == {"weights": 0, "optimiser moments": 800}
    gpu = replace(FLOAT, gpu=True)
    assert held({"stage": 2}, gpu).saving == {"weights": 400, "optimiser moments": 800}
    share = held({"stage": 3}, HALF)
    assert share.saving == {"weights": 200, "float32 copies": 400, "optimiser moments": 800}
    assert share.gathering == {"float32 copies": 240, "optimiser moments": 480}


def test_every_engine_says_what_it_holds_and_no_choice_is_refused() -> None:
    assert {choice["name"] for choice in planned_choices()} == set(ENGINES)
    for choice in planned_choices():
        share, modelled = rank_memory(find_engine(choice), UpdateConfig(), HALF, 2)
        assert modelled
        there = add_parts(share.held, share.host)
        assert share.held["weights"] >= 100
        assert there["optimiser moments"] == (800 if choice["name"] == "single" else 400)
