"""Exports: the files of a lora_checkpoint as they are, adapters merged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.policy.test_load import logprobs
from vlrft.config import PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema.errors import ConfigError
from vlrft.trainer.export import Source, export_model, find_source


def test_a_checkpoint_is_copied_without_the_trainers_files(
    lora_checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    exported = export_model(find_source(str(lora_checkpoint)), out, dtype=None, base=None)
    names = {p.name for p in out.iterdir()}
    assert {"config.json", "model.safetensors", "generation_config.json"} <= names
    assert not names & {"adapter", "trainer", "manifest.json"}
    assert all((out / n).read_bytes() == (lora_checkpoint / n).read_bytes() for n in names)
    assert exported.multimodal
    assert exported.dtype == "bfloat16"
    assert exported.kept is not None
    assert exported.kept < 1


def test_an_adapter_is_merged_into_its_base_in_the_dtype_that_is_asked_for(
    lora_checkpoint: Path, lora_policy: Policy, lora_base: Path, tmp_path: Path
) -> None:
    adapter = Source(model=str(lora_checkpoint / "adapter"), run=None)
    exported = export_model(adapter, tmp_path, dtype="float32", base=None)
    assert exported.base == str(lora_base)
    assert exported.kept == pytest.approx(1.0, abs=1e-4)
    merged = load_policy(PolicyConfig(model=str(tmp_path)))
    asked = PolicyConfig(adapter=str(lora_checkpoint / "adapter"), dtype="float32")
    assert merged.dtype == torch.float32
    assert torch.allclose(logprobs(merged), logprobs(load_policy(asked)), atol=1e-5)


def test_a_checkpoint_is_merged_anew_for_another_dtype(
    lora_checkpoint: Path, tmp_path: Path
) -> None:
    exported = export_model(find_source(str(lora_checkpoint)), tmp_path, dtype="float32", base=None)
    assert exported.kept == pytest.approx(1.0, abs=1e-4)


def test_a_place_without_anything_to_export_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run, no checkpoint and no LoRA adapter"):
        find_source(str(tmp_path))
