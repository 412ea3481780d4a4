"""A run that does not fit gets the smallest set of changes that fits, and those that change its results least first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.doctor.planner import stage_settings
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.config.overrides import without_replaced
from vlrft.memory.plan import FILL_LIMIT
from vlrft.trainer.memory_plan.changes import find_knobs
from vlrft.trainer.memory_plan.planner import Planner, peak_bytes
from vlrft.trainer.memory_plan.proposal import propose

YAML = """
task: {name: digits, options: {subtasks: [count]}}
policy:
  build: {hidden_size: 64, layers: 2, heads: 4, kv_heads: 2, intermediate_size: 128, vision_width: 32, vision_layers: 1}
rollout: {group_size: 16, max_tokens: 64}
stages:
  - {steps: 1, prompts_per_step: 32}
eval: {limit: 2}
"""
SAME = ("update.", "policy.activation_checkpointing", "rollout.", "engine=", "ranks.")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("proposals") / "run.yaml"
    file.write_text(YAML)
    return str(file)


@pytest.fixture(scope="module")
def config(path: str) -> Config:
    return load_config(path)


@pytest.fixture(scope="module")
def planner(config: Config) -> Planner:
    return Planner(config, "cuda")  # whose pixels are in host memory; nothing runs there


class Formula:
    """A planner of a formula: it plans the bytes that a function of the config says."""

    def __init__(self, size: Any, device: str = "cuda", ranks: int = 1) -> None:
        self.size, self.device, self.ranks = size, device, ranks
        self.model = type("Shape", (), {"tower": object()})

    def for_ranks(self, ranks: int) -> Formula:
        return Formula(self.size, self.device, ranks)

    def plans(self, config: Config) -> list[Any]:
        peak = type("Peak", (), {"total": self.size(config, self.ranks)})
        return [type("Stage", (), {"plan": type("Plan", (), {"peak": peak})})]


def settings(config: Config, planner: Any, memory: int) -> Sequence[str]:
    proposal = propose(config, planner, memory)
    assert proposal is not None
    return proposal.settings


def test_proposals_fit_by_the_settings_that_they_name(
    path: str, config: Config, planner: Planner
) -> None:
    present = peak_bytes(planner.plans(config))
    for share in (0.95, 0.5):
        memory = int(share * present)
        proposal = propose(config, planner, memory)
        assert proposal is not None
        written = load_config(path, proposal.settings)
        assert written == proposal.config
        assert peak_bytes(planner.plans(written)) == proposal.peak <= FILL_LIMIT * memory
        assert proposal.changes[0].before == present
        assert proposal.changes[-1].after == proposal.peak


def test_no_change_of_a_proposal_can_be_left_out(
    path: str, config: Config, planner: Planner
) -> None:
    memory = peak_bytes(planner.plans(config)) // 24
    wanted = settings(config, planner, memory)
    assert len(wanted) == 3
    for left_out in wanted:
        rest = load_config(path, [s for s in wanted if s != left_out])
        assert peak_bytes(planner.plans(rest)) > FILL_LIMIT * memory


def test_a_little_too_large_needs_no_change_of_results(config: Config, planner: Planner) -> None:
    memory = int(peak_bytes(planner.plans(config)) * 0.7)
    assert all(setting.startswith(SAME) for setting in settings(config, planner, memory))


def weights(config: Config, ranks: int) -> int:
    """24 where all is trained, 10 with adapters, 3 in 4 bits; sharded by other engines than `single`."""
    policy = config.policy
    held = 3 if policy.quantization == "nf4" else 10 if policy.has_adapters else 24
    return held * 100 // (ranks if config.engine != "single" else 1)


def test_adapters_come_before_4_bits_and_both_before_more_gpus(config: Config) -> None:
    policy = replace(config.policy, build=None, model="model", dtype="bfloat16")
    config = replace(config, policy=policy, task=config.task)
    planner = Formula(weights)
    assert settings(config, planner, 1200) == ("policy.lora={rank: 16}",)
    assert settings(config, planner, 400) == ("policy.quantization=nf4", "policy.lora={rank: 16}")
    assert settings(config, Formula(weights, ranks=4), 1200) == (
        "engine={name: deepspeed, stage: 1}",
    )


def test_more_gpus_are_proposed_where_one_is_too_small(config: Config) -> None:
    def always_large(config: Config, ranks: int) -> int:
        return 1000 // (ranks if config.engine != "single" else 1)

    wanted = settings(config, Formula(always_large), 300)
    assert wanted[0] == "ranks.count=4"
    assert wanted[1].startswith("engine={name: ")
    assert propose(config, Formula(always_large, device="cpu"), 300) is None  # type: ignore[arg-type]
    assert propose(config, Formula(always_large), 1) is None  # type: ignore[arg-type]


def test_an_adapter_on_weights_of_another_kind_keeps_them(config: Config, tmp_path: Path) -> None:
    policy = replace(config.policy, build=None, model="m", lora=None, quantization="none")
    knobs = find_knobs(replace(config, policy=policy), multimodal=True, resizable=True, ranks=1)
    assert not any("quantization" in s for k in knobs for c in k.levels for s in c.settings)


def test_images_of_answers_in_pixels_are_left_as_they_are(config: Config) -> None:
    def keys(resizable: bool) -> set[str]:
        knobs = find_knobs(config, multimodal=True, resizable=resizable, ranks=1)
        return {s.partition("=")[0] for k in knobs for c in k.levels for s in c.settings}

    assert keys(True) - keys(False) == {"policy.max_pixels"}


def test_smaller_images_are_planned_with_their_own_prompts(
    config: Config, planner: Planner
) -> None:
    small = replace(config, policy=replace(config.policy, max_pixels=28 * 28 * 4))
    prompts = [planner.plans(c)[0].origin for c in (config, small, config)]
    assert prompts[0] == prompts[2] != prompts[1]


def test_a_stage_with_a_limit_of_its_own_gets_a_setting_of_its_own(path: str) -> None:
    own = ["stages.0.update.max_tokens_per_micro_batch=9000"]
    before = load_config(path, own)
    (first, *_) = find_knobs(before, multimodal=True, resizable=True, ranks=1)
    change = first.levels[1]
    assert change.settings == ("update.max_tokens_per_micro_batch=4096",)
    loaded, meant = load_config(path, [*own, *change.settings]), change.apply(before)
    more = stage_settings(loaded, meant)
    assert more == ("stages.0.update.max_tokens_per_micro_batch=4096",)
    kept = without_replaced(own, more, [])
    assert load_config(path, [*kept, *change.settings, *more]) == meant
