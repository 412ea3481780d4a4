"""Stop strings: a completion ends where its text first contains one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.policy.chat import Chat

PART_OF_CHARACTER = "\ufffd"  # decoded from some of the bytes of a character


class StopStrings:
    """Finds the rows whose last token completes a stop string. Only rows whose last token may do so are decoded."""

    def __init__(self, strings: Sequence[str], chat: Chat, vocab_size: int) -> None:
        self.strings = strings
        self.chat = chat
        # A token has at least one byte; one token more, as the string may begin within a token.
        self.window = max(len(text.encode()) for text in strings) + 1
        last = {text[-1] for text in strings} | {PART_OF_CHARACTER}
        texts = chat.decode_all([[i] for i in range(vocab_size)])
        self.can_end = torch.tensor([not last.isdisjoint(text) for text in texts])  # [V]

    def find_completed(
        self, tokens: Int[Tensor, "N T"], unfinished: Bool[Tensor, " N"]
    ) -> Bool[Tensor, " N"]:
        """The `unfinished` rows whose last token completes a stop string."""
        self.can_end = self.can_end.to(tokens.device)
        completed = torch.zeros_like(unfinished)
        rows = (self.can_end[tokens[:, -1]] & unfinished).nonzero()[:, 0]
        if len(rows):
            texts = self.chat.decode_all(tokens[rows, -self.window :].tolist())
            hits = [any(stop in text for stop in self.strings) for text in texts]
            completed[rows] = torch.tensor(hits, device=tokens.device)
        return completed


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string in it."""
    ends = [text.find(string) for string in stop if string in text]
    return text[: min(ends)] if ends else text
