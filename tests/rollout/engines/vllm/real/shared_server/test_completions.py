"""Completions of the real vLLM: `make test-vllm`."""

from __future__ import annotations

import httpx
import pytest
import torch

from tests.rollout.engines.vllm.real.servers import MARKS
from tests.rollout.engines.vllm.real.shared_server.conftest import IMAGE_BYTES
from tests.rollout.engines.vllm.real.trainer_gaps import (
    BOUND,
    assert_equal,
    largest_gap,
    requests,
)
from vlrft.policy.chat import Chat
from vlrft.policy.logprobs import model_inputs
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.sampling import truncate
from vlrft.rollout.engines.types import Request, RolloutEngine, Sampling
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.testing.rollout_engine import RolloutEngineConformance

pytestmark = MARKS


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
