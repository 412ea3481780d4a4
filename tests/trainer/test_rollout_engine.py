"""A run with a rollout engine of somebody's own: what a run gives it, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from vlrft.config import Config, RolloutConfig, strict
from vlrft.config.load import load_config
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.schema import Piece
from vlrft.schema.errors import ConfigError
from vlrft.testing.scripted_engine import ScriptedEngine
from vlrft.trainer.train import train

TINY = """
task: {name: digits, options: {subtasks: [classify], train: 8, test: 4}}
policy: {build: {hidden_size: 16, layers: 1, heads: 2, kv_heads: 1, intermediate_size: 16, vision_width: 16, vision_layers: 1}}
rollout: {group_size: 2, max_tokens: 6}
stages:
  - {steps: 1, prompts_per_step: 2}
  - {steps: 1, prompts_per_step: 2}
eval: {limit: 1}
self_check: false
prefetch_threads: 0
"""
# A value of a stage's own for every key of `rollout`, and where the engine meets it.
STAGE_VALUES: dict[str, tuple[Any, Any]] = {
    "group_size": (3, lambda request, sampling: len(request.seeds)),
    "temperature": (0.5, lambda request, sampling: sampling.temperature),
    "top_p": (0.9, lambda request, sampling: sampling.top_p),
    "top_k": (7, lambda request, sampling: sampling.top_k),
    "max_tokens": (4, lambda request, sampling: sampling.max_tokens),
    "stop": (("8",), lambda request, sampling: sampling.stop),
    "max_prompt_tokens": (300, lambda request, sampling: sampling.limits.max_prompt_tokens),
    "max_images": (2, lambda request, sampling: sampling.limits.max_images),
    "max_rows": (5, lambda request, sampling: sampling.limits.max_rows),
    "max_cache_tokens": (999, lambda request, sampling: sampling.limits.max_cache_tokens),
}
events: list[tuple[str, Any]] = []


@strict
class Recorder:
    """An engine that notes its calls; it answers one character a rollout."""

    reads: bool = False  # whether it reads the weights

    def check(self, config: RolloutConfig) -> None:
        if config.top_k > 100:
            raise ConfigError(["rollout.top_k: at most 100 with this engine"])

    def build(self, policy: Policy) -> RecorderEngine:
        return RecorderEngine(policy, self.reads)


class RecorderEngine(ScriptedEngine):
    def __init__(self, policy: Policy, reads: bool) -> None:
        super().__init__(policy.chat, lambda request, seed: str(seed % 10))
        self.policy = policy
        self.reads = reads

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        copies = {name: tensor.clone() for name, tensor in weights} if self.reads else {}
        events.append(("weights", (step, copies)))

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        events.append(("generate", (requests[0], sampling)))
        return super().generate(requests, sampling)


def config(folder: Path, *overrides: str) -> Config:
    events.clear()
    path = folder / "tiny.yaml"
    path.write_text(TINY)
    return load_config(str(path), (f"rollout.engine={__name__}:Recorder", *overrides))


def sampled() -> list[tuple[Request, Sampling]]:
    """The calls of `generate` without the evaluations, which are greedy."""
    return [what for kind, what in events if kind == "generate" and what[1].temperature]


def test_the_table_of_this_test_has_every_key() -> None:
    assert {f.name for f in fields(RolloutConfig)} == {*STAGE_VALUES, "engine", "ahead"}


def test_a_stage_samples_with_its_own_value_of_every_key(tmp_path: Path) -> None:
    values = [
        f"stages.1.rollout.{key}={list(value) if isinstance(value, tuple) else value}"
        for key, (value, _) in STAGE_VALUES.items()
    ]
    train(config(tmp_path, *values), out=tmp_path / "run")
    first, *_, last = sampled()  # a stage may sample more than once
    assert [key for key, (value, read) in STAGE_VALUES.items() if read(*last) != value] == []
    assert [key for key, (value, read) in STAGE_VALUES.items() if read(*first) == value] == []


def test_a_stage_has_no_engine_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"stages\.1\.rollout\.engine: 'hf', but one engine"):
        config(tmp_path, "stages.1.rollout.engine=hf")


def test_settings_that_an_engine_does_not_support_are_refused_for_each_stage(
    tmp_path: Path,
) -> None:
    for at in ("rollout", "stages.1.rollout"):
        with pytest.raises(ConfigError, match="at most 100"):
            train(config(tmp_path, f"{at}.top_k=200"), out=tmp_path / "run")


@pytest.mark.parametrize("reads", [False, True])
def test_weights_are_offered_before_the_first_answers_and_after_each_step(
    reads: bool, tmp_path: Path
) -> None:
    engine = f"rollout.engine={{name: '{__name__}:Recorder', reads: {reads}}}"
    train(config(tmp_path, engine, "algorithm=sft", "update.lr=0.1"), out=tmp_path / "run")
    assert events[0][0] == "weights"
    steps = [what for kind, what in events if kind == "weights"]
    assert [step for step, _ in steps] == [0, 1, 2]
    if reads:
        start, *_, end = [weights for _, weights in steps]
        assert start.keys() == end.keys()
        assert any(not torch.equal(start[name], end[name]) for name in start)


def test_a_resumed_run_offers_the_weights_of_its_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(config(tmp_path), out=out)
    train(config(tmp_path), out=out, resume=True)
    assert [what[0] for kind, what in events if kind == "weights"] == [2]
