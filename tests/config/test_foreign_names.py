from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from vlrft.algorithms import find_algorithm
from vlrft.config import Config
from vlrft.config.errors import keys_of
from vlrft.config.foreign_names import FOREIGN_NAMES, OPTIONS
from vlrft.config.load import load_config
from vlrft.plugins.find import find_task
from vlrft.schema.errors import ConfigError

PLAIN = """
task: digits
policy: {build: {family: qwen2_vl}, lora: {rank: 4}}
stages: [{steps: 7}]
"""
KEYS = set(keys_of(Config))


def hint(tmp_path: Path, override: str) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(PLAIN)
    with pytest.raises(ConfigError) as caught:
        find_algorithm(load_config(path, [override]).stages[0].algorithm or "")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("ours", sorted(set(FOREIGN_NAMES.values())))
def test_each_suggestion_is_a_key_that_exists(ours: str) -> None:
    key = ours.partition(" ")[0].replace("stages.0.", "stages.")
    section, *names = key.split(".")
    if section == "algorithm" and names:
        part = find_algorithm({"name": "grpo", "correction": {}})
        for name in names:
            part = getattr(part, name)
    elif key == "task.options.data":
        assert "data" in {field.name for field in fields(find_task("geoqa").options)}
    else:
        assert key in KEYS


def test_no_name_is_one_of_our_own_or_in_both_tables() -> None:
    assert not {name for name in FOREIGN_NAMES if name in KEYS and FOREIGN_NAMES[name] != name}
    assert not set(FOREIGN_NAMES) & set(OPTIONS)
    assert all(name == name.lower() for name in (*FOREIGN_NAMES, *OPTIONS))


@pytest.mark.parametrize(
    ("override", "suggestion"),
    [
        ("learning_rate=1e-6", "update.lr"),
        ("num_generations=8", "rollout.group_size"),
        ("beta=0.04", "algorithm.regularize.kl"),
        ("algorithm.kl_coef=0.04", "algorithm.regularize.kl"),
        ("policy.lora.r=8", "policy.lora.rank"),
        ("lora_alpha=16", "policy.lora.alpha"),
        ("batch_size=8", "stages.0.prompts_per_step"),
        (
            "per_device_train_batch_size=8",
            "stages.0.prompts_per_step (in prompts, of all devices)",
        ),
        ("generation_batch_size=8", "stages.0.prompts_per_step (in prompts)"),
        ("steps_per_generation=8", "update.updates_per_batch (in optimiser steps)"),
        ("ref_model_mixup_alpha=0.6", "algorithm.reference.decay (1 − alpha)"),
        ("max_completion_length=8", "rollout.max_tokens"),
        ("max_prompt_length=8", "rollout.max_prompt_tokens"),
        ("gradient_checkpointing=true", "policy.activation_checkpointing"),
        ("num_train_epochs=1", "stages.0.epochs"),
        ("epsilon=0.2", "algorithm.objective.clip_low"),
        ("reward_weights=[1]", "task.rewards"),
        ("actor_rollout_ref.rollout.n=8", "rollout.group_size"),
        ("worker.rollout.n=8", "rollout.group_size"),
        ("worker.actor.optim.lr=1e-6", "update.lr"),
        ("data.max_response_length=8", "rollout.max_tokens"),
        ("stages.0.learning_rate=1", "stages.0.update.lr"),
        ("stages.0.num_train_epochs=1", "stages.0.epochs"),
        ("update.learning_rate=1", "update.lr"),
        ("update.beta=1", "update.betas"),  # a slip of a key in its own section comes first
        ("epochs=2", "stages.0.epochs"),
        ("policy.rank=2", "policy.lora.rank"),
    ],
)
def test_the_name_of_another_toolkit_gets_our_key(
    tmp_path: Path, override: str, suggestion: str
) -> None:
    assert hint(tmp_path, override).endswith(f": unknown key; did you mean {suggestion}?")


@pytest.mark.parametrize("override", ["x=1", "gpu_memory_utilization=0.6", "policy.r=1"])
def test_a_name_like_none_of_ours_gets_no_guess(tmp_path: Path, override: str) -> None:
    assert "; allowed: " in hint(tmp_path, override)


def test_a_whole_section_of_another_toolkit_has_a_line_for_each_key_that_is_known(
    tmp_path: Path,
) -> None:
    section = "actor_rollout_ref={rollout: {n: 8, foo: 3}, actor: {optim: {lr: 1e-6}}}"
    lines = hint(tmp_path, section).splitlines()
    assert [line.partition("; ")[2] for line in lines] == [
        "did you mean rollout.group_size?",
        "did you mean update.lr?",
    ]


def test_options_of_the_command_line_are_named(tmp_path: Path) -> None:
    assert hint(tmp_path, "output_dir=x").endswith("give --out DIR on the command line")
