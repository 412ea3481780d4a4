"""Under ZeRO-3 two ranks sample what one process samples while only the layer that runs is whole, and one rank reads all
weights; behind both they train on."""

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

from tests.engine.deepspeed.test_engine import BUDGET, TOLERANCE, UPDATE, batches, distance, played
from tests.fakes.policies import CORPUS, ask, noise_image, tiny_config
from tests.fakes.process_ranks import run_ranks
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
from vlrft.trainer.update import update

pytestmark = pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs vlrft[deepspeed]")

# Of two ranks the requests of each turn, by place: two portions and one, images late, nothing at all.
TURNS = (((0, 1, 2), (3, 4)), ((), (4,)), ((0,), ()), ((), (3, 2)))
POLICIES = {"all weights": None, "adapters": LoraConfig(rank=4)}


def requests(own: Policy) -> list[Request]:
    seen = [noise_image(56, 56, seed) for seed in range(2)]
    asked: list[tuple[str | Slot, list[Image.Image]]] = [
        ("red?", []),
        ("how many of them?", []),
        ("?", []),
        (IMAGE, seen[:1]),
        (IMAGE, seen[1:]),
    ]
    prompts = [own.chat.render(ask(q), images, name="q") for q, images in asked]
    return [Request(id=str(k), prompt=p, seeds=(k, 10 + k, 20 + k)) for k, p in enumerate(prompts)]


def said(own: Policy, places: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The sampled tokens of each turn's requests."""
    sampler, asked = HfEngine(own), requests(own)
    found: list[tuple[int, ...]] = []
    for turn, chosen in enumerate(places):
        sampling = Sampling(max_tokens=3 + 2 * turn, limits=Limits(max_rows=6))
        answers = sampler.generate([asked[k] for k in chosen], sampling)
        found += [piece.ids for pieces in answers for piece in pieces]
    sampler.finish()
    return found


def step(engine: TrainEngine, ranks: Ranks) -> None:
    dealt = [replace(g, rank=k % ranks.size) for k, g in enumerate(played(engine.policy))]
    update(engine, batches(dealt, "gpg", ranks), ALGORITHMS["gpg"], BUDGET)


def run(lora: LoraConfig | None, ranks: Ranks, folder: Path) -> dict[str, Any]:
    own = load_policy(tiny_config("qwen2_vl", lora=lora), corpus=CORPUS, seed=0)
    mine = [turn[ranks.rank] for turn in TURNS]
    expected, start = said(own, mine), copied(own)
    step(build_engine(UPDATE, own, 4), ALONE)
    trained = copied(own)
    own.load_weights(start)
    engine = build_engine(
        UPDATE, own, 4, ranks, {"name": "deepspeed", "stage": 3, "rollout": "hooks"}
    )
    layer, held = own.backbone.decoder.layers[0], set[int]()
    hook = layer.register_forward_hook(lambda *_: held.add(elements(own.model)))
    with engine.ready_to_sample():
        found = said(own, mine)
    hook.remove()
    behind = elements(own.model)
    step(engine, ranks)
    with engine.unsharded_on_first_rank():
        gaps = [
            distance(tensor, trained[name])
            for name, tensor in own.trained_weights().items()
            if tensor.numel()
        ]
        if ranks.first:
            own.save(folder / f"saved {lora is None}")
    with engine.ready_to_sample():
        again = said(own, mine)
    engine.close()
    prompt = requests(own)[1].prompt.ids
    with torch.no_grad():
        logits = own.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    largest = max(elements(part) for part in own.backbone.decoder.layers)
    return {
        "same": found == expected,
        "as trained": again == said(own, mine),
        "changed": again != found,
        "held": [count - behind for count in held],
        "layer": largest,
        "whole": elements(own.model),
        "prompt": prompt,
        "logits": logits,
        "gaps": gaps,
    }


def copied(own: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in own.trained_weights().items()}


def elements(module: torch.nn.Module) -> int:
    """Of the parameters that are whole."""
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
def test_ranks_that_sample_together_say_what_each_says_alone(
    pair: list[dict[str, Any]], name: str
) -> None:
    for found in (one[name] for one in pair):
        assert found["same"]
        assert found["changed"]  # a step behind it
        assert found["as trained"]


@pytest.mark.parametrize("name", POLICIES)
def test_only_the_layer_that_runs_is_whole(pair: list[dict[str, Any]], name: str) -> None:
    for found in (one[name] for one in pair):
        assert found["held"] == [found["layer"]]
        assert found["layer"] < found["whole"] / 4


@pytest.mark.parametrize("name", POLICIES)
def test_the_first_rank_reads_the_trained_weights(pair: list[dict[str, Any]], name: str) -> None:
    first, second = pair
    assert first[name]["gaps"]
    assert max(first[name]["gaps"]) <= TOLERANCE
    assert second[name]["gaps"] == []


@pytest.mark.parametrize("name", POLICIES)
def test_what_it_saves_plain_transformers_load(
    pair: list[dict[str, Any]], folder: Path, name: str
) -> None:
    transformers = pytest.importorskip("transformers")
    saved = folder / f"saved {POLICIES[name] is None}"
    model = transformers.AutoModelForImageTextToText.from_pretrained(saved)
    ids = torch.tensor([pair[0][name]["prompt"]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, -1]
    torch.testing.assert_close(logits, pair[0][name]["logits"], rtol=1e-4, atol=1e-5)


def test_what_shards_nothing_has_nothing_to_gather() -> None:
    own = load_policy(tiny_config("qwen2"), corpus=CORPUS, seed=0)
    with pytest.raises(ConfigError, match=r"engine\.rollout: hooks .* stage 2 .* use stage 3"):
        build_engine(UPDATE, own, 4, ALONE, {"name": "deepspeed", "stage": 2, "rollout": "hooks"})
