"""Conformance of a rollout engine (`vlrft.rollout.engines.RolloutEngine`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Limits, Request, RolloutEngine, Sampling
from vlrft.schema import DataError, Message, Piece

QUESTIONS = ("What is 2 + 2?", "Name a colour.", "Which digit is this, and why? Say it in a word.")


class RolloutEngineConformance:
    """Inherit it, name the subclass `Test…`, and define `engine` and `chat`."""

    sampling: Sampling = Sampling(max_tokens=8)
    greedy: bool = True
    """Whether temperature 0 gives one completion whatever the seed."""
    seeded: bool = True
    """Whether a seed decides its completion, whatever else is asked for at the same time."""

    limits_prompts: bool = True
    """Whether a prompt longer than `Limits.max_prompt_tokens` is refused."""

    def engine(self) -> RolloutEngine:
        """An engine with fixed weights; the same one may be returned again."""
        raise TypeError(f"{type(self).__name__}: define engine(self) -> RolloutEngine")

    def chat(self) -> Chat:
        """The chat of the engine's policy, which renders the prompts."""
        raise TypeError(f"{type(self).__name__}: define chat(self) -> Chat")

    def requests(self, seeds: int = 3) -> list[Request]:
        return [
            Request(
                id=f"question {k}",
                prompt=self.chat().render((Message(role="user", content=(text,)),)),
                seeds=tuple(range(10 * k, 10 * k + seeds)),
            )
            for k, text in enumerate(QUESTIONS)
        ]

    def completions(
        self, requests: Sequence[Request], sampling: Sampling | None = None
    ) -> list[tuple[Piece, ...]]:
        engine = self.engine()
        pieces = engine.generate(requests, sampling or self.sampling)
        engine.finish()
        return pieces

    def test_every_seed_has_its_completion_in_order(self) -> None:
        requests = self.requests()
        assert [len(group) for group in self.completions(requests)] == [3] * len(requests)
        assert self.completions([]) == []

    def test_a_completion_says_its_tokens_log_probs_and_end(self) -> None:
        for piece in (p for group in self.completions(self.requests()) for p in group):
            assert piece.sampled
            assert 0 < len(piece.ids) <= self.sampling.max_tokens
            assert len(piece.logprobs) == len(piece.ids)
            assert len(piece.policy_steps) in (0, len(piece.ids))
            assert all(math.isfinite(x) and x <= 1e-6 for x in piece.logprobs)
            assert piece.finish in ("stop", "length")
            if piece.finish == "length":
                assert len(piece.ids) == self.sampling.max_tokens

    def test_the_text_is_that_of_the_tokens(self) -> None:
        chat = self.chat()
        for piece in (p for group in self.completions(self.requests()) for p in group):
            assert piece.text == chat.decode(piece.ids)

    def test_no_banned_token_is_sampled(self) -> None:
        banned = self.chat().banned_ids - set(self.chat().end_ids)
        for piece in (p for group in self.completions(self.requests()) for p in group):
            assert not banned & set(piece.ids)

    def test_a_seed_decides_its_completion(self) -> None:
        if self.seeded:
            requests = self.requests()
            together = self.completions(requests)
            alone = [self.completions([request])[0] for request in requests[::-1]][::-1]
            assert [[p.ids for p in g] for g in together] == [[p.ids for p in g] for g in alone]

    def test_greedy_decoding_ignores_the_seed(self) -> None:
        if self.greedy:
            for group in self.completions(self.requests(), replace(self.sampling, temperature=0.0)):
                assert len({piece.ids for piece in group}) == 1

    def test_a_limit_of_one_token_is_kept(self) -> None:
        for group in self.completions(self.requests(), replace(self.sampling, max_tokens=1)):
            assert all(len(piece.ids) == 1 for piece in group)

    def test_a_prompt_that_is_too_long_is_refused_by_name(self) -> None:
        if not self.limits_prompts:
            return
        prompt = self.chat().render((Message(role="user", content=(" why" * 50,)),))
        short = replace(self.sampling, limits=Limits(max_prompt_tokens=20))
        try:
            self.completions([Request(id="too long", prompt=prompt, seeds=(0,))], short)
        except DataError as error:
            message = str(error)
        else:
            message = "(it was completed)"
        assert "too long" in message, f"the refusal of the request 'too long': {message}"
