"""`policy.dtype: auto` by device and by the dtype in which a model is stored, in the policy and in the plan of its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch

from vlrft.config import PolicyConfig
from vlrft.distributed.device import has_bfloat16_units, pick_dtype
from vlrft.policy.load import load_policy
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.memory_plan.model_shapes import load_model_shape

UNITS = "vlrft.distributed.device.has_bfloat16_units"


@pytest.mark.parametrize(
    ("capabilities", "units"),
    [({}, False), ({"avx512_f": True}, False), ({"avx512_bf16": True}, True), ({"amx_bf16": True}, True)],
)  # fmt: skip
def test_units_for_bfloat16_are_read_from_the_cpu(
    capabilities: dict[str, bool], units: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert has_bfloat16_units() == units


def test_auto_is_bfloat16_only_where_the_cpu_and_the_stored_weights_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UNITS, lambda: True)
    assert pick_dtype("auto", "cpu", torch.bfloat16) == torch.bfloat16
    for stored in (None, torch.float32, torch.float16):
        assert pick_dtype("auto", "cpu", stored) == torch.float32
    assert pick_dtype("float32", "cpu", torch.bfloat16) == torch.float32
    monkeypatch.setattr(UNITS, lambda: False)
    assert pick_dtype("auto", "cpu", torch.bfloat16) == torch.float32


@pytest.mark.parametrize(
    ("stored", "units", "used"),
    [("bfloat16", True, torch.bfloat16), ("bfloat16", False, torch.float32), ("float32", True, torch.float32)],
)  # fmt: skip
def test_a_stored_model_and_its_plan_have_the_same_dtype(
    stored: Literal["bfloat16", "float32"],
    units: bool,
    used: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_policy(tiny_config("qwen2", dtype=stored), corpus=CORPUS).save(tmp_path / "model")
    monkeypatch.setattr(UNITS, lambda: units)
    config = PolicyConfig(model=str(tmp_path / "model"))
    assert load_policy(config).dtype == used
    assert load_model_shape(config, tokenizer=None, device="cpu").element == used.itemsize


def test_a_built_policy_is_float32_on_every_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UNITS, lambda: True)
    assert load_policy(tiny_config("qwen2"), corpus=CORPUS).dtype == torch.float32
