"""Every shipped config fits GPUs of 80 GB by doctor's own plan: one of them, or as many as its `ranks.count` says; and those
whose names say so fit one of 24 GB.

The models are on the hub: `fixtures/model_shapes.json` has the sizes of their published config.json, and the number of
parameters that their published weights have, from the index of the safetensors files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.doctor.planner import fits
from vlrft.config import Config, PolicyConfig, TaskConfig
from vlrft.config.load import load_config
from vlrft.config.shipped import shipped_configs
from vlrft.memory.shapes import ModelShape
from vlrft.trainer.memory_plan import planner
from vlrft.trainer.memory_plan.model_shapes import load_model_shape, make_meta_model

MODELS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "model_shapes.json").read_text(encoding="utf-8")
)
GPU, SMALL_GPU = 80 * 2**30, 24 * 2**30  # bytes; what is left free is the planner's affair
SAME_TASK = TaskConfig(name="digits")
RELEASED_LORA = {"refcoco_grpo_released"}  # the configs whose authors train adapters


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders with the config.json of each model; each model is made once."""
    folder = tmp_path_factory.mktemp("models")
    for name, known in MODELS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps(known["config"]))

    @cache
    def model(config: PolicyConfig) -> Any:
        return make_meta_model(config, None)

    @cache
    def shape(config: PolicyConfig, device: str) -> ModelShape:
        return load_model_shape(config, tokenizer=None, device=device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            planner,
            "load_model_shape",
            lambda config, tokenizer, device, model: shape(
                replace(config, min_pixels=None, max_pixels=None), device
            ),
        )
        patch.setattr(
            planner,
            "make_meta_model",
            lambda config, tokenizer: model(PolicyConfig(model=config.model)),
        )
        yield folder


@cache
def of_models() -> dict[str, Config]:
    """The configs that train a model of the hub, by name."""
    configs = {name: load_config(path) for name, path in shipped_configs().items()}
    return {name: config for name, config in configs.items() if config.policy.build is None}


def different_plans() -> list[str]:
    """A config of each kind: those that differ in their task, reports or checkpoints alone have equal plans."""
    kinds: dict[str, str] = {}
    for name, config in of_models().items():
        stages = [replace(stage, task=SAME_TASK) for stage in config.stages]
        parts = (config.policy, config.rollout, config.eval, config.engine, config.ranks, stages)
        kinds.setdefault(repr(parts), name)
    return sorted(kinds.values())


@pytest.mark.parametrize("name", different_plans())
def test_the_config_fits_as_many_gpus_as_it_says(name: str, models: Path) -> None:
    model = f"policy.model={models / str(of_models()[name].policy.model)}"
    config = load_config(name, [model, "device=cuda"])
    ranks = config.ranks.count or 1
    small = name.endswith("_24gb")
    assert ranks == 1 or not small
    plans = planner.Planner(config, "cuda", ranks).plans(config)
    assert fits(plans, SMALL_GPU if small else GPU)


def test_the_recipes_for_24_gb_are_made_of_configs_that_do_not_fit_it(models: Path) -> None:
    kinds = {name: config.policy for name, config in of_models().items() if name.endswith("_24gb")}
    assert {(str(p.model).split("-")[-2], p.quantization) for p in kinds.values()} >= {
        ("2B", None),
        ("3B", None),
        ("3B", "nf4"),
        ("7B", "nf4"),
    }
    for name, policy in kinds.items():
        whole = of_models()[name.removesuffix("_24gb")]
        assert replace(policy, lora=None, quantization=None) == replace(whole.policy, lora=None)
        assert policy.lora is not None


def test_twins_of_published_runs_train_what_those_trained_and_share_their_gpus() -> None:
    for name, config in of_models().items():
        if name.endswith("_released"):
            assert config.policy.has_adapters == (name in RELEASED_LORA)
            assert config.policy.freeze == ()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_recorded_sizes_has_the_published_number_of_parameters(
    name: str, models: Path
) -> None:
    model = make_meta_model(PolicyConfig(model=str(models / name)), None)
    assert sum(weight.numel() for weight in model.parameters()) == MODELS[name]["parameters"]


def test_activations_are_recomputed_for_a_model_and_not_for_a_small_one_that_is_built() -> None:
    assert load_config("geoqa_gpg").policy.checkpoints_activations
    assert not load_config("quickstart").policy.checkpoints_activations
    off = load_config("geoqa_gpg", ["policy.activation_checkpointing=false"])
    assert not off.policy.checkpoints_activations
