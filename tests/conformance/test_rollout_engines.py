"""The rollout engines pass the suite that engine authors inherit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.conftest import Tiny
from vlrft.config import RolloutConfig
from vlrft.policy.chat import Chat
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, RolloutEngine, Sampling, build_rollout_engine
from vlrft.schema import Piece
from vlrft.testing.rollout_engine import RolloutEngineConformance
from vlrft.testing.scripted_engine import ScriptedEngine


class TestHf(RolloutEngineConformance):
    policy: Policy

    @pytest.fixture(autouse=True, params=["qwen2", "qwen2_vl"])
    def of_a_tiny_policy(self, tiny: Tiny, request: pytest.FixtureRequest) -> None:
        self.policy = tiny(request.param)

    def engine(self) -> RolloutEngine:
        return build_rollout_engine(RolloutConfig(max_rows=5), self.policy)

    def chat(self) -> Chat:
        return self.policy.chat


class TestScripted(RolloutEngineConformance):
    greedy = False
    limits_prompts = False  # it feeds no model
    _chat: Chat

    @pytest.fixture(autouse=True)
    def of_a_tiny_policy(self, tiny: Tiny) -> None:
        self._chat = tiny("qwen2").chat

    def engine(self) -> RolloutEngine:
        return ScriptedEngine(self._chat, lambda request, seed: f"{seed}")

    def chat(self) -> Chat:
        return self._chat


class Late(ScriptedEngine):
    """Breaks what the suite asks for: a completion depends on the company of its request, and is longer than asked."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        self.answer = lambda request, seed: "x" * (len(requests) + 1)
        return super().generate(requests, replace(sampling, max_tokens=sampling.max_tokens + 1))


@pytest.mark.parametrize(
    "check", ["test_a_seed_decides_its_completion", "test_a_limit_of_one_token_is_kept"]
)
def test_the_suite_fails_for_a_careless_engine(tiny: Tiny, check: str) -> None:
    class Broken(RolloutEngineConformance):
        def engine(self) -> RolloutEngine:
            return Late(tiny("qwen2").chat, lambda request, seed: "")

        def chat(self) -> Chat:
            return tiny("qwen2").chat

    with pytest.raises(AssertionError):
        getattr(Broken(), check)()
