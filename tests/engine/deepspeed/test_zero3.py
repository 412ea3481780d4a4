"""Under ZeRO-3 two ranks sample the tokens of one process with only the running layer gathered, and one rank reads all
weights; after both they continue to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.engine.test_sharded_steps import TOLERANCE
from vlrft.algorithms import ALGORITHMS
from vlrft.config import LoraConfig
from vlrft.distributed.ranks import ALONE, Ranks
from vlrft.engine import TrainEngine, build_engine
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Slot
from vlrft.schema.errors import ConfigError
from vlrft.testing.engine_steps import (
    BUDGET,
    UPDATE,
    ragged_groups,
    relative_distance,
    step_batches,
)
from vlrft.testing.process_ranks import run_ranks
from vlrft.testing.small_policies import CORPUS, ask, noise_image, tiny_config
from vlrft.trainer.update import update

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs vlrft[deepspeed]")

# The requests of two ranks in each turn, by index: two batches and one, images late, none at all.
TURNS = (((0, 1, 2), (3, 4)), ((), (4,)), ((0,), ()), ((), (3, 2)))
POLICIES = {"all weights": None, "adapters": LoraConfig(rank=4)}


def requests(policy: Policy) -> list[Request]:
    pictures = [noise_image(56, 56, seed) for seed in range(2)]
    questions: list[tuple[str | Slot, list[Image.Image]]] = [
        ("red?", []),
        ("how many of them?", []),
        ("?", []),
        (IMAGE, pictures[:1]),
        (IMAGE, pictures[1:]),
    ]
    prompts = [policy.chat.render(ask(q), images, name="q") for q, images in questions]
    return [Request(id=str(k), prompt=p, seeds=(k, 10 + k, 20 + k)) for k, p in enumerate(prompts)]


def sample_turns(policy: Policy, turns: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The sampled tokens of each turn's requests."""
    sampler, all_requests = HfEngine(policy), requests(policy)
    ids: list[tuple[int, ...]] = []
    for turn, chosen in enumerate(turns):
        sampling = Sampling(max_tokens=3 + 2 * turn, limits=Limits(max_rows=6))
        answers = sampler.generate([all_requests[k] for k in chosen], sampling)
        ids += [piece.ids for pieces in answers for piece in pieces]
    sampler.finish()
    return ids


def step(engine: TrainEngine, ranks: Ranks) -> None:
    shared = [replace(g, rank=k % ranks.size) for k, g in enumerate(ragged_groups(engine.policy))]
    update(engine, step_batches(shared, "gpg", ranks), ALGORITHMS["gpg"], BUDGET)


def run(lora: LoraConfig | None, ranks: Ranks, folder: Path) -> dict[str, Any]:
    policy = load_policy(tiny_config("qwen2_vl", lora=lora), corpus=CORPUS, seed=0)
    turns = [turn[ranks.rank] for turn in TURNS]
    expected, start = sample_turns(policy, turns), weights_copy(policy)
    step(build_engine(UPDATE, policy, 4), ALONE)
    trained = weights_copy(policy)
    policy.load_weights(start)
    engine = build_engine(
        UPDATE, policy, 4, ranks, {"name": "deepspeed", "stage": 3, "rollout": "hooks"}
    )
    layer, held = policy.backbone.decoder.layers[0], set[int]()
    hook = layer.register_forward_hook(lambda *_: held.add(elements(policy.model)))
    with engine.ready_to_sample():
        sampled = sample_turns(policy, turns)
    hook.remove()
    sharded = elements(policy.model)
    step(engine, ranks)
    with engine.unsharded_on_first_rank():
        gaps = [
            relative_distance(tensor, trained[name])
            for name, tensor in policy.trained_weights().items()
            if tensor.numel()
        ]
        if ranks.first:
            policy.save(folder / f"saved {lora is None}")
    with engine.ready_to_sample():
        again = sample_turns(policy, turns)
    engine.close()
    prompt = requests(policy)[1].prompt.ids
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    largest = max(elements(part) for part in policy.backbone.decoder.layers)
    return {
        "same": sampled == expected,
        "as trained": again == sample_turns(policy, turns),
        "changed": again != sampled,
        "held": [count - sharded for count in held],
        "layer": largest,
        "unsharded": elements(policy.model),
        "prompt": prompt,
        "logits": logits,
        "gaps": gaps,
    }


def weights_copy(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.trained_weights().items()}


def elements(module: torch.nn.Module) -> int:
    """The elements that this rank holds of the module's parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def work(ranks: Ranks, folder: Path) -> dict[str, Any]:
    return {name: run(lora, ranks, folder) for name, lora in POLICIES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zero3")


@pytest.fixture(scope="module")
def pair(folder: Path) -> list[dict[str, Any]]:
    return run_ranks(work, folder)


@pytest.mark.parametrize("name", POLICIES)
def test_ranks_that_sample_together_sample_the_same_tokens_as_each_alone(
    pair: list[dict[str, Any]], name: str
) -> None:
    for results in (one[name] for one in pair):
        assert results["same"]
        assert results["changed"]  # by the step in between
        assert results["as trained"]


@pytest.mark.parametrize("name", POLICIES)
def test_only_the_layer_that_runs_is_gathered(pair: list[dict[str, Any]], name: str) -> None:
    for results in (one[name] for one in pair):
        assert results["held"] == [results["layer"]]
        assert results["layer"] < results["unsharded"] / 4


@pytest.mark.parametrize("name", POLICIES)
def test_rank_0_reads_the_trained_weights(pair: list[dict[str, Any]], name: str) -> None:
    first, second = pair
    assert first[name]["gaps"]
    assert max(first[name]["gaps"]) <= TOLERANCE
    assert second[name]["gaps"] == []


@pytest.mark.parametrize("name", POLICIES)
def test_transformers_load_the_weights_that_rank_0_saves(
    pair: list[dict[str, Any]], folder: Path, name: str
) -> None:
    transformers = pytest.importorskip("transformers")
    saved = folder / f"saved {POLICIES[name] is None}"
    model = transformers.AutoModelForImageTextToText.from_pretrained(saved)
    ids = torch.tensor([pair[0][name]["prompt"]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, -1]
    torch.testing.assert_close(logits, pair[0][name]["logits"], rtol=1e-4, atol=1e-5)


def test_hooks_without_sharded_weights_are_refused() -> None:
    policy = load_policy(tiny_config("qwen2"), corpus=CORPUS, seed=0)
    with pytest.raises(ConfigError, match=r"engine\.rollout: hooks .* stage 2 .* use stage 3"):
        build_engine(
            UPDATE, policy, 4, ALONE, {"name": "deepspeed", "stage": 2, "rollout": "hooks"}
        )
