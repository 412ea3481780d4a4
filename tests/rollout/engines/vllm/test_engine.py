"""The engine against fake servers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import UPDATE_PATHS, NewEngine, NewFake
from vlrft.policy.chat import Chat
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import Limits, Request, RolloutEngine, Sampling, StreamingEngine
from vlrft.schema import IMAGE, DataError, Message
from vlrft.schema.errors import ServerError
from vlrft.testing.fake_completions import Completion, FakeRequest
from vlrft.testing.rollout_engine import RolloutEngineConformance

SAMPLING = Sampling(max_tokens=8)


def question(policy: Policy, text: str = "what?", seeds: Sequence[int] = (1, 2, 3)) -> Request:
    prompt = policy.chat.render((Message(role="user", content=(text,)),))
    return Request(id=text, prompt=prompt, seeds=tuple(seeds))


class TestVllm(RolloutEngineConformance):
    sampling = SAMPLING

    @pytest.fixture(autouse=True)
    def build(self, tiny: Tiny, new_fake: NewFake, new_engine: NewEngine) -> None:
        self._chat = tiny("qwen2_vl").chat
        self._engine = new_engine(new_fake(), new_fake())

    def engine(self) -> RolloutEngine:
        return self._engine

    def chat(self) -> Chat:
        return self._chat

    def test_it_streams(self) -> None:
        assert isinstance(self._engine, StreamingEngine)


def test_an_image_is_sent_with_its_hash_place_and_pixels(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    picture = Image.new("RGB", (56, 56), "red")
    message = Message(role="user", content=("look", IMAGE, "and", IMAGE))
    prompt = policy.chat.render((message,), (picture, Image.new("RGB", (56, 84))))
    engine.generate([Request(id="a", prompt=prompt, seeds=(5,))], SAMPLING)
    body = [body for path, body in server.calls if path.endswith("generate")][-1]
    features = body["features"]
    assert body["token_ids"] == list(prompt.ids)
    assert features["mm_hashes"]["image"] == [image.key for image in prompt.images]
    for image, place in zip(prompt.images, features["mm_placeholders"]["image"], strict=True):
        run = prompt.ids[place["offset"] : place["offset"] + place["length"]]
        assert run == (policy.chat.image_token_id,) * image.tokens
    assert body["sampling_params"]["seed"] == 5


def test_generate_and_submit_give_the_same_pieces(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy = tiny("qwen2_vl")
    engine = new_engine(new_fake())
    (together,) = engine.generate([question(policy)], SAMPLING)
    alone = [f.result() for f in engine.submit(question(policy), SAMPLING)]
    assert [p.ids for p in together] == [p.ids for p in alone]
    assert [p.policy_steps for p in together] == [()] * 3
    assert [p.policy_steps for p in alone] == [(0,) * len(p.ids) for p in alone]


def test_an_update_reaches_every_server_and_empties_the_caches_in_order(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, servers = tiny("qwen2_vl"), [new_fake(), new_fake()]
    engine = new_engine(*servers)
    for server in servers:
        server.calls.clear()
    engine.load_weights(policy.weights(), 1)
    for server in servers:
        assert server.paths() == UPDATE_PATHS
        assert server.version.endswith("-1")
    (path,) = {Path(s.calls[2][1]["update_info"]["path"]) for s in servers}
    assert path.is_file()
    engine.close()
    assert not path.parent.exists()


def test_the_file_has_the_weights_by_their_names_in_a_checkpoint(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    policy, server = tiny("qwen2_vl"), new_fake()
    new_engine(server)
    (sent,) = [b["update_info"]["path"] for p, b in server.calls if p == "/update_weights"]
    policy.save(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    weights = load_file(sent)
    assert weights.keys() == stored.keys()
    assert all(weights[name].equal(stored[name]) for name in stored)


def scripted(*tokens: int) -> object:
    def answer(request: FakeRequest) -> Completion:
        return tokens, [-1.0] * len(tokens)

    return answer


def test_a_stop_string_ends_the_piece_as_with_the_engine_hf(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy = tiny("qwen2_vl")
    ids = policy.chat.tokenizer.encode("yes or no or maybe", add_special_tokens=False)
    engine = new_engine(new_fake(answer=scripted(*ids)))
    sampling = Sampling(max_tokens=len(ids), stop=(" or",))
    ((piece,),) = engine.generate([question(policy, seeds=[1])], sampling)
    assert piece.text == "yes"
    assert piece.finish == "stop"
    assert policy.chat.decode(piece.ids).endswith("or")
    assert len(piece.ids) < len(ids)
    assert len(piece.logprobs) == len(piece.ids)


def test_an_update_in_the_middle_continues_completions_with_their_tokens(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    server.set(hang_after=2)
    request = question(policy, seeds=[8])
    (future,) = engine.submit(request, Sampling(max_tokens=40))
    assert server.wait_until(lambda s: s.running == 1)
    server.faults.hang_after = None  # seen by the next request; this one waits on
    engine.load_weights(policy.weights(), 1)
    piece = future.result(20)
    assert piece.policy_steps[:2] == (0, 0)
    assert set(piece.policy_steps[2:]) <= {1}
    bodies = [body for path, body in server.calls if path.endswith("generate")]
    assert bodies[1]["token_ids"] == [*request.prompt.ids, *piece.ids[:2]]
    assert bodies[1]["sampling_params"]["max_tokens"] == 38
    assert bodies[1]["sampling_params"]["seed"] != 8


def test_a_changed_prompt_and_a_banned_token_stop_the_run(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    policy, server = tiny("qwen2_vl"), new_fake()
    engine = new_engine(server)
    server.set(change_prompt=True)
    with pytest.raises(ServerError, match=r"^what\?: the server sampled after another prompt"):
        engine.generate([question(policy)], SAMPLING)
    server.set(change_prompt=False)
    server.answer = lambda request: ([policy.chat.image_token_id], [-1.0])  # type: ignore[list-item]
    with pytest.raises(ServerError, match=r"sampled the token \d+, which is banned"):
        engine.generate([question(policy)], SAMPLING)


def test_a_completion_that_ends_without_reason_names_the_context(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    engine = new_engine(new_fake(answer=scripted(40, 41)))
    with pytest.raises(ServerError, match=r"after 2 of 8 tokens .*--max-model-len"):
        engine.generate([question(tiny("qwen2_vl"))], SAMPLING)


def test_a_prompt_that_is_too_long_is_refused_before_it_is_sent(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    engine = new_engine(server)
    with pytest.raises(DataError, match=r"rollout\.max_prompt_tokens=2"):
        engine.submit(
            question(tiny("qwen2_vl")), Sampling(max_tokens=8, limits=Limits(max_prompt_tokens=2))
        )
    assert not server.asked


def test_closing_cancels_what_is_under_way(
    tiny: Tiny, new_fake: NewFake, new_engine: NewEngine
) -> None:
    server = new_fake()
    engine = new_engine(server)
    server.set(hang=True)
    futures = engine.submit(question(tiny("qwen2_vl")), SAMPLING)
    assert server.wait_until(lambda s: s.asked == 3)
    engine.close()
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(20)
    engine.close()  # a second time does nothing


def test_a_server_of_another_version_is_refused(new_engine: NewEngine, new_fake: NewFake) -> None:
    with pytest.raises(ServerError, match=r"is vLLM 0\.11\.0; supported is"):
        new_engine(new_fake(version="0.11.0"))
