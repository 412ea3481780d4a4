"""Weights that are sent to the real vLLM, and a server that is killed: `make test-vllm`."""

from __future__ import annotations

import copy
import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from safetensors.torch import save_file

from tests.rollout.engines.vllm.real.servers import MARKS, server_pids, start_engine
from tests.rollout.engines.vllm.real.trainer_gaps import (
    BOUND,
    assert_equal,
    largest_gap,
    perturb,
    requests,
    trainer_gaps,
)
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Sampling
from vlrft.rollout.engines.vllm.broadcast import WeightBroadcast
from vlrft.rollout.engines.vllm.engine import VllmEngine

pytestmark = MARKS


@pytest.mark.parametrize("part", ["", "visual", "embed_tokens"])
def test_after_an_update_the_sampler_is_the_trainers_policy(
    qwen2_vl: Policy, tied: VllmEngine, part: str
) -> None:
    """All weights, the vision tower alone, the tied embedding alone: with the prompts and images that the caches hold."""
    asked = requests(qwen2_vl.chat)
    before = tied.generate(asked, Sampling(max_tokens=24))
    perturb(qwen2_vl, seed=1, part=part)
    assert largest_gap(qwen2_vl, asked, before, 1.0) > 1000 * BOUND
    tied.load_weights(qwen2_vl.weights(), 1)
    assert_equal(qwen2_vl, tied)


def test_lora_on_tower_and_language_model_is_merged_into_the_update(
    tied: VllmEngine, qwen2_vl: Policy, tmp_path: Path
) -> None:
    qwen2_vl.save(tmp_path)
    adapted = load_policy(PolicyConfig(model=str(tmp_path), lora=LoraConfig(rank=4)))
    adapted.model.eval()
    assert any("visual" in name for name in adapted.trained_names)
    with start_engine(adapted, tmp_path, urls=(tied.servers[0].url,)) as engine:
        for step in (1, 2):
            perturb(adapted, seed=step)
            engine.load_weights(adapted.weights(), step)
            assert_equal(adapted, engine)
    tied.load_weights(qwen2_vl.weights(), 2)


def test_weights_that_are_broadcast_leave_the_sampler_with_the_trainers_policy(
    tied: VllmEngine, qwen2_vl: Policy, tmp_path: Path
) -> None:
    """Twice through one group, with a server that goes on with files when the trainer of the broadcast has gone."""
    url = tied.servers[0].url
    with start_engine(qwen2_vl, tmp_path, urls=(url,), transfer="broadcast") as engine:
        for step in (1, 2):
            perturb(qwen2_vl, seed=10 + step)
            engine.load_weights(qwen2_vl.weights(), step)
            assert_equal(qwen2_vl, engine)
        assert engine.connection is not None
        transfer = engine.connection.transfer
        assert isinstance(transfer, WeightBroadcast)
        assert transfer.latest is not None
        lacking = "visual.blocks.0.norm1.weight"
        for name in [name for name in transfer.latest[1] if name.endswith(lacking)]:
            del transfer.latest[1][name]
        assert f"lacks 1 of the weights: {lacking}" in engine.explain_gap()
        engine.load_weights(qwen2_vl.weights(), 3)
        assert_equal(qwen2_vl, engine)
    tied.load_weights(qwen2_vl.weights(), 3)
    assert_equal(qwen2_vl, tied)


def generated_tokens(url: str) -> float:
    """Tokens that a server has sampled so far."""
    lines = httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
    name = "vllm:generation_tokens_total"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_completions_under_way_continue_with_the_new_weights_and_know_which_sampled_each_token(
    qwen2_vl: Policy, tied: VllmEngine
) -> None:
    # On a busy machine all completions may end before the weights arrive, so that it is tried again.
    assert any(update_under_way(qwen2_vl, tied, step) for step in range(10, 20, 2))


def update_under_way(policy: Policy, engine: VllmEngine, step: int) -> bool:
    """Updates the server to other weights, of step + 1, while it samples, and checks that each token is of the weights that it
    names. Whether some completion has tokens of both."""
    url, asked = engine.servers[0].url, requests(policy.chat, seeds=range(4))
    engine.load_weights(policy.weights(), step)
    old = copy.deepcopy(policy.model.state_dict())
    perturb(policy, seed=3)
    before = generated_tokens(url)
    futures = [engine.submit(request, Sampling(max_tokens=1000)) for request in asked]
    while generated_tokens(url) < before + 20:
        time.sleep(0.01)
    engine.load_weights(policy.weights(), step + 1)
    pieces = [[future.result(timeout=300) for future in group] for group in futures]
    new_gaps = trainer_gaps(policy, asked, pieces, 1.0)
    new = copy.deepcopy(policy.model.state_dict())
    policy.model.load_state_dict(old)
    gaps = {step: trainer_gaps(policy, asked, pieces, 1.0), step + 1: new_gaps}
    policy.model.load_state_dict(new)
    rows = [piece for group in pieces for piece in group]
    for row, piece in enumerate(rows):
        assert list(piece.policy_steps) == sorted(piece.policy_steps)
        assert all(gaps[s][row][k] < BOUND for k, s in enumerate(piece.policy_steps))
    return any(set(piece.policy_steps) == {step, step + 1} for piece in rows)


def refused(url: str, path: Path) -> str:
    """The answer to an update from a file."""
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        http.post("/start_weight_update").raise_for_status()
        answer = http.post("/update_weights", json={"update_info": {"path": str(path)}})
    assert answer.status_code == 500
    return answer.text


def test_a_missing_file_leaves_the_old_weights_and_a_file_that_lacks_one_is_refused_by_its_name(
    qwen2_vl: Policy, tied: VllmEngine, tmp_path: Path
) -> None:
    url = tied.servers[0].url
    assert "not a readable safetensors file" in refused(url, tmp_path / "none.safetensors")
    assert_equal(qwen2_vl, tied)
    weights = {name: tensor.clone() for name, tensor in qwen2_vl.weights()}
    del weights["model.visual.blocks.0.norm1.weight"]
    save_file(weights, tmp_path / "part.safetensors")
    assert "visual.blocks.0.norm1.weight" in refused(url, tmp_path / "part.safetensors")
    perturb(qwen2_vl, seed=4)
    tied.load_weights(qwen2_vl.weights(), 4)
    assert_equal(qwen2_vl, tied)


def test_a_killed_server_comes_back_and_the_completions_are_those_without_the_loss(
    qwen2_vl: Policy, tied: VllmEngine
) -> None:
    asked, sampling = requests(qwen2_vl.chat, seeds=range(4)), Sampling(max_tokens=400)
    tied.load_weights(qwen2_vl.weights(), 12)
    expected = [[piece.ids for piece in group] for group in tied.generate(asked, sampling)]
    pid = server_pids(tied)[0]
    futures = [tied.submit(request, sampling) for request in asked]
    os.kill(pid, signal.SIGKILL)
    assert [[f.result(timeout=500).ids for f in group] for group in futures] == expected
    assert server_pids(tied)[0] != pid
