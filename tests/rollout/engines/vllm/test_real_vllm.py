"""The engine against the real vLLM, in the environment of `make vllm`: `make test-vllm`.

Two servers serve all tests: Qwen2-VL with a tied head and the update as a file, and Qwen2.5-VL with a head of its own, a
vocabulary too large to list, and adapters. Log-probs are always compared with the trainer's: vLLM compared with itself does
not show a weight that stays old.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.chat import Chat
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import model_inputs, packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.sampling import truncate
from vlrft.rollout.engines.types import EnginePlace, Request, RolloutEngine, Sampling
from vlrft.rollout.engines.vllm.broadcast import WeightBroadcast
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.schema import IMAGE, Piece
from vlrft.testing.rollout_engine import RolloutEngineConformance
from vlrft.testing.small_policies import ask, noise_image

ROOT = Path(__file__).parents[4]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
IMAGE_BYTES = 2**21  # in base64
BOUND = 1e-5  # nats, of every token
LANGUAGE = r".*language_model\..*_proj"  # adapters of the language model alone

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make vllm` makes the environment of vLLM"),
]
Start = Callable[..., VllmEngine]


def corpus() -> list[str]:
    pages = sorted((ROOT / "docs" / "howto").glob("*.md"))
    return [line for page in pages for line in page.read_text("utf-8").splitlines()]


def requests(chat: Chat, seeds: Sequence[int] = (0, 1)) -> list[Request]:
    """Prompts with one image, two of different sizes, and none."""
    prompts = [
        chat.render(ask(IMAGE, "How many?"), [noise_image(112, 112)]),
        chat.render(
            ask("Look: ", IMAGE, IMAGE), [noise_image(112, 84, 1), noise_image(56, 140, 2)]
        ),
        chat.render(ask("Name a colour.")),
    ]
    return [
        Request(id=str(k), prompt=p, seeds=tuple(100 * k + s for s in seeds))
        for k, p in enumerate(prompts)
    ]


def trainer_gaps(
    policy: Policy, asked: Sequence[Request], pieces: Sequence[Sequence[Piece]], temperature: float
) -> list[list[float]]:
    """For each completion, how far each token's log-prob is from the one that an update computes."""
    items = [
        PackItem(prompt=request.prompt, rows=tuple(piece.ids for piece in group))
        for request, group in zip(asked, pieces, strict=True)
    ]
    rows = [piece for group in pieces for piece in group]
    mask = torch.zeros(len(rows), max(len(piece.ids) for piece in rows), dtype=torch.bool)
    for row, piece in enumerate(rows):
        mask[row, : len(piece.ids)] = True
    with torch.no_grad():
        scores = packed_logprobs(policy, items, mask=mask, temperature=temperature).logprobs
    return [
        [abs(float(ours) - theirs) for ours, theirs in zip(row, piece.logprobs, strict=False)]
        for row, piece in zip(scores, rows, strict=True)
    ]


def largest_gap(
    policy: Policy, asked: Sequence[Request], pieces: Sequence[Sequence[Piece]], temperature: float
) -> float:
    return max(map(max, trainer_gaps(policy, asked, pieces, temperature)))


def assert_equal(policy: Policy, engine: VllmEngine, temperature: float = 1.0) -> None:
    """The engine samples from the policy as it is now."""
    asked = requests(policy.chat)
    pieces = engine.generate(asked, Sampling(max_tokens=24, temperature=temperature))
    assert largest_gap(policy, asked, pieces, temperature) < BOUND


def perturb(policy: Policy, seed: int, part: str = "") -> None:
    """Changes the trained parameters whose names contain `part`, as a large update does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if parameter.requires_grad and part in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.add_(noise * (0.05 * parameter.abs().mean() + 0.01))


def untie(folder: Path) -> None:
    """Gives a saved model a head of its own."""
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    noise = torch.randn(embedding.shape, generator=torch.Generator().manual_seed(7))
    save_file(
        weights | {"lm_head.weight": embedding + 0.05 * noise},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Builds engines, which are closed after the last test. `settings`: of the engine; without `urls` it starts a server."""
    engines: list[VllmEngine] = []

    def build(policy: Policy, **settings: Any) -> VllmEngine:
        if "urls" not in settings:
            settings |= {"python": str(PYTHON), "context": 2048}
        place = EnginePlace(folder=tmp_path_factory.mktemp("run"))
        engine = Vllm(**settings).build_at(policy, place)
        assert isinstance(engine, VllmEngine)
        engines.append(engine)
        engine.load_weights(policy.weights(), 0)
        return engine

    yield build
    for engine in engines:
        engine.close()


# --- Qwen2-VL, tied, updates of all weights ---


@pytest.fixture(scope="module")
def qwen2_vl() -> Policy:
    config = PolicyConfig(build=BuildConfig(family="qwen2_vl", init_scale=4.0))
    policy = load_policy(config, corpus=corpus(), seed=0)
    policy.model.eval()
    return policy


@pytest.fixture(scope="module")
def tied(start: Start, qwen2_vl: Policy) -> VllmEngine:
    """Its server keeps few images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLRFT_IMAGE_BYTES", str(IMAGE_BYTES))
        return start(qwen2_vl)


class TestTheRealVllm(RolloutEngineConformance):
    sampling = Sampling(max_tokens=8)

    @pytest.fixture(autouse=True)
    def keep(self, qwen2_vl: Policy, tied: VllmEngine) -> None:
        self._chat, self._engine = qwen2_vl.chat, tied

    def engine(self) -> RolloutEngine:
        return self._engine

    def chat(self) -> Chat:
        return self._chat


def test_greedy_completions_are_those_of_the_hf_engine(qwen2_vl: Policy, tied: VllmEngine) -> None:
    asked, greedy = requests(qwen2_vl.chat, seeds=(0,)), Sampling(max_tokens=24, temperature=0.0)
    ours = [
        [(p.ids, p.text, p.finish) for p in g] for g in HfEngine(qwen2_vl).generate(asked, greedy)
    ]
    theirs = [[(p.ids, p.text, p.finish) for p in g] for g in tied.generate(asked, greedy)]
    assert theirs == ours


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_the_trainers(qwen2_vl: Policy, tied: VllmEngine, temperature: float) -> None:
    assert_equal(qwen2_vl, tied, temperature)


def test_log_probs_of_truncated_sampling_are_those_of_the_remaining_tokens(
    qwen2_vl: Policy, tied: VllmEngine
) -> None:
    asked = requests(qwen2_vl.chat, seeds=range(4))
    sampling = Sampling(max_tokens=24, temperature=0.7, top_p=0.9)
    for request, group in zip(asked, tied.generate(asked, sampling), strict=True):
        for piece in group:
            ids = torch.tensor([[*request.prompt.ids, *piece.ids]])
            inputs = model_inputs(qwen2_vl, ids, torch.ones_like(ids), request.prompt.images)
            with torch.no_grad():
                logits = qwen2_vl.model(**inputs).logits[0, len(request.prompt.ids) - 1 : -1]
            logits = logits.double().masked_fill(qwen2_vl.banned, -torch.inf) / 0.7
            kept = truncate(logits, top_p=0.9).log_softmax(1)
            scores = kept.gather(1, torch.tensor(piece.ids)[:, None])[:, 0]
            assert float((scores - torch.tensor(piece.logprobs)).abs().max()) < BOUND


def test_a_seed_decides_its_completion_in_any_order_and_batch(
    qwen2_vl: Policy, tied: VllmEngine
) -> None:
    asked, sampling = requests(qwen2_vl.chat, seeds=range(6)), Sampling(max_tokens=24)
    together = [piece.ids for group in tied.generate(asked, sampling) for piece in group]
    one_by_one = [
        Request(id=r.id, prompt=r.prompt, seeds=(seed,)) for r in asked for seed in r.seeds
    ][::-1]
    alone = [tied.generate([request], sampling)[0][0].ids for request in one_by_one][::-1]
    assert alone == together
    assert len(set(together)) > len(asked)


def test_pixels_are_sent_once_and_again_when_the_server_has_dropped_them(
    qwen2_vl: Policy, tied: VllmEngine
) -> None:
    server = tied.servers[0]
    asked = [r for r in requests(qwen2_vl.chat, seeds=range(50, 58)) if r.prompt.images]
    images = [image for request in asked for image in request.prompt.images]
    pixels = sum(len(tied._wire._serialise(image)) for image in images)

    def sent() -> int:
        before = server.sent_bytes
        pieces = tied.generate(asked, Sampling(max_tokens=8))
        assert largest_gap(qwen2_vl, asked, pieces, 1.0) < BOUND
        return server.sent_bytes - before

    def put(data: str) -> None:
        image = {"key": "other", "data": data}
        httpx.post(f"{server.url}/vlrft/images", json=image, trust_env=False).raise_for_status()

    put("A" * IMAGE_BYTES)  # nothing else has room
    assert pixels < sent() < 1.5 * pixels
    assert sent() < pixels / 2
    put("A" * IMAGE_BYTES)
    assert pixels < sent() < 1.5 * pixels


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
    tied: VllmEngine, start: Start, qwen2_vl: Policy, tmp_path: Path
) -> None:
    qwen2_vl.save(tmp_path)
    adapted = load_policy(PolicyConfig(model=str(tmp_path), lora=LoraConfig(rank=4)))
    adapted.model.eval()
    assert any("visual" in name for name in adapted.trained_names)
    engine = start(adapted, urls=(tied.servers[0].url,))
    for step in (1, 2):
        perturb(adapted, seed=step)
        engine.load_weights(adapted.weights(), step)
        assert_equal(adapted, engine)
    engine.close()
    tied.load_weights(qwen2_vl.weights(), 2)


def test_weights_that_are_broadcast_leave_the_sampler_with_the_trainers_policy(
    tied: VllmEngine, start: Start, qwen2_vl: Policy
) -> None:
    """Twice through one group, with a server that goes on with files when the trainer of the broadcast has gone."""
    engine = start(qwen2_vl, urls=(tied.servers[0].url,), transfer="broadcast")
    for step in (1, 2):
        perturb(qwen2_vl, seed=10 + step)
        engine.load_weights(qwen2_vl.weights(), step)
        assert_equal(qwen2_vl, engine)
    transfer = engine._transfer
    assert isinstance(transfer, WeightBroadcast)
    assert transfer.latest is not None
    lacking = "visual.blocks.0.norm1.weight"
    for name in [name for name in transfer.latest[1] if name.endswith(lacking)]:
        del transfer.latest[1][name]
    assert f"lacks 1 of the weights: {lacking}" in engine.explain_gap()
    engine.load_weights(qwen2_vl.weights(), 3)
    assert_equal(qwen2_vl, engine)
    engine.close()
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
    url, asked = tied.servers[0].url, requests(qwen2_vl.chat, seeds=range(4))
    tied.load_weights(qwen2_vl.weights(), 10)
    before = generated_tokens(url)
    futures = [tied.submit(request, Sampling(max_tokens=1000)) for request in asked]
    while generated_tokens(url) < before + 200:
        time.sleep(0.01)
    old = copy.deepcopy(qwen2_vl.model.state_dict())
    perturb(qwen2_vl, seed=3)
    tied.load_weights(qwen2_vl.weights(), 11)
    pieces = [[future.result(timeout=300) for future in group] for group in futures]
    new_gaps = trainer_gaps(qwen2_vl, asked, pieces, 1.0)
    new = copy.deepcopy(qwen2_vl.model.state_dict())
    qwen2_vl.model.load_state_dict(old)
    gaps = {10: trainer_gaps(qwen2_vl, asked, pieces, 1.0), 11: new_gaps}
    qwen2_vl.model.load_state_dict(new)
    rows = [piece for group in pieces for piece in group]
    for row, piece in enumerate(rows):
        assert list(piece.policy_steps) == sorted(piece.policy_steps)
        assert all(gaps[s][row][k] < BOUND for k, s in enumerate(piece.policy_steps))
    assert any(set(piece.policy_steps) == {10, 11} for piece in rows)


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
    pid = server_pid(tied)
    futures = [tied.submit(request, sampling) for request in asked]
    os.kill(pid, signal.SIGKILL)
    assert [[f.result(timeout=300).ids for f in group] for group in futures] == expected
    again = server_pid(tied)
    tied.close()
    assert again != pid
    assert not Path(f"/proc/{again}").exists()


def server_pid(engine: VllmEngine) -> int:
    """The process of the server that the engine has started."""
    assert engine._supervisor is not None
    (keeper,) = engine._supervisor.processes.values()
    (pid,) = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
    return int(pid)


# --- Qwen2.5-VL, a head of its own, adapters, a large vocabulary ---


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    build = BuildConfig(family="qwen2_5_vl", init_scale=4.0, vocab_size=2048)
    folder = tmp_path_factory.mktemp("untied")
    load_policy(PolicyConfig(build=build), corpus=corpus(), seed=0).save(folder)
    untie(folder)
    lora = LoraConfig(rank=12, target_modules=LANGUAGE)
    policy = load_policy(PolicyConfig(model=str(folder), lora=lora))
    policy.model.eval()
    return policy


@pytest.fixture(scope="module")
def adapters(start: Start, adapted: Policy) -> VllmEngine:
    return start(adapted, lora="adapter")


def test_adapters_are_served_over_a_model_with_a_head_of_its_own(
    adapted: Policy, adapters: VllmEngine
) -> None:
    assert_equal(adapted, adapters)
    for step in (1, 2, 3):
        perturb(adapted, seed=step)
        adapters.load_weights(adapted.weights(), step)
        assert_equal(adapted, adapters)


def test_tokens_of_a_large_vocabulary_are_banned_by_the_plug_in(
    adapted: Policy, adapters: VllmEngine
) -> None:
    """With a ban so wide that without it a banned token would be sampled."""
    banned = adapted.chat.banned_ids | set(range(0, 2048, 2))
    wire = replace(adapters._wire, banned=tuple(sorted(banned)))
    adapters._sampler = replace(adapters._sampler, wire=wire)
    asked = requests(adapted.chat, seeds=range(4))
    tokens = [
        t for g in adapters.generate(asked, Sampling(max_tokens=24)) for p in g for t in p.ids
    ]
    assert len(tokens) > 100
    assert not banned & set(tokens)
