"""Completions that are sampled to be compared: of the engine's present weights, whatever the step was sampled with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.fakes.streaming_engines import CopyEngine
from tests.trainer.test_sampler_check import make
from vlrft.config import LoraConfig, RolloutConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE
from vlrft.testing.small_policies import CORPUS, ask, noise_image, tiny_config
from vlrft.trainer.ahead.probe import resample
from vlrft.trainer.batch import Batch
from vlrft.trainer.sampler_check import measure_sampler_gap


@pytest.fixture(params=["all weights", "lora"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Policy, CopyEngine]]:
    """A policy, and an engine with a copy of it and its first weights."""
    config = tiny_config("qwen2_vl")
    if request.param == "lora":
        config = replace(config, lora=LoraConfig(rank=2))
    policy = load_policy(config, corpus=CORPUS, seed=0)
    engine = CopyEngine(policy)
    engine.load_weights(policy.weights(), 0)
    yield policy, engine
    engine.close()


def train(policy: Policy) -> None:
    """Changes every trained weight."""
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in policy.trained_weights().values():
            tensor.add_(0.05 * torch.randn(tensor.shape, generator=noise))


def mean_gap(policy: Policy, batch: Batch, rollout: RolloutConfig) -> float:
    gap = measure_sampler_gap(policy, batch, 10_000, rollout)
    assert gap is not None
    return gap.total / gap.tokens


def test_a_stale_step_does_not_hide_that_the_engine_has_the_present_weights(
    pair: tuple[Policy, CopyEngine],
) -> None:
    policy, engine = pair
    batch, rollout = make(policy)
    train(policy)
    engine.load_weights(policy.weights(), 1)
    assert mean_gap(policy, batch, rollout) > 1e-3
    fresh = resample(batch, engine, Sampling.of(rollout), step=2)
    assert mean_gap(policy, fresh, rollout) < 1e-5


def test_weights_that_did_not_arrive_are_seen(pair: tuple[Policy, CopyEngine]) -> None:
    policy, engine = pair
    batch, rollout = make(policy)
    train(policy)
    fresh = resample(batch, engine, Sampling.of(rollout), step=2)
    assert mean_gap(policy, fresh, rollout) > 1e-3


def test_a_copy_samples_as_the_module_does_after_each_update(
    pair: tuple[Policy, CopyEngine],
) -> None:
    policy, engine = pair
    prompt = policy.chat.render(ask(IMAGE, "Which digit?"), [noise_image(56, 56, 1)])
    request = Request(id="s", prompt=prompt, seeds=(1, 2, 3))
    sampling = Sampling(max_tokens=8)
    for step in (1, 2):
        train(policy)
        engine.load_weights(policy.weights(), step)
        (ours,) = HfEngine(policy).generate([request], sampling)
        (copies,) = engine.generate([request], sampling)
        assert [p.ids for p in copies] == [p.ids for p in ours]
        assert all(set(p.policy_steps) == {step} for p in copies)
