"""A rollout engine that answers from a function instead of a model, for tests and dry runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from vlrft.policy.chat import Chat
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.stop_strings import cut_at_stop
from vlrft.schema import Piece


class ScriptedEngine:
    """`answer(request, seed)` is the text of a completion, which ends its turn unless the token limit cuts it off."""

    def __init__(self, chat: Chat, answer: Callable[[Request, int], str]) -> None:
        self.chat = chat
        self.answer = answer

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], step: int) -> None:
        """Reads nothing: there is no model."""

    def finish(self) -> None:
        """Nothing to do: ranks do not wait for each other."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[tuple[Piece, ...]]:
        """See `RolloutEngine.generate`; log-probs are 0: every token is certain."""
        return [
            tuple(self._piece(self.answer(request, seed), sampling) for seed in request.seeds)
            for request in requests
        ]

    def _piece(self, text: str, sampling: Sampling) -> Piece:
        kept = cut_at_stop(text, sampling.stop)
        ids = self.chat.answer_ids(kept)
        if len(ids) > sampling.max_tokens:
            ids = ids[: sampling.max_tokens]
            return Piece(
                ids=ids, text=self.chat.decode(ids), logprobs=(0.0,) * len(ids), finish="length"
            )
        return Piece(ids=ids, text=kept, logprobs=(0.0,) * len(ids), finish="stop")
