"""Stop strings: a completion ends where its text first holds one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.policy.chat import Chat

PART_OF_CHARACTER = "\ufffd"  # what some bytes of a character decode to


class StopStrings:
    """Finds the rows that have just reached a stop string. Only rows whose latest token can end one are decoded."""

    def __init__(self, strings: Sequence[str], chat: Chat, vocab_size: int) -> None:
        self.strings = strings
        self.chat = chat
        # A token holds a byte at least; one more token holds what precedes the string within its first token.
        self.window = max(len(text.encode()) for text in strings) + 1
        last = {text[-1] for text in strings} | {PART_OF_CHARACTER}
        texts = chat.decode_all([[i] for i in range(vocab_size)])
        self.can_end = torch.tensor([not last.isdisjoint(text) for text in texts])  # [V]

    def reached(self, tokens: Int[Tensor, "N T"], going: Bool[Tensor, " N"]) -> Bool[Tensor, " N"]:
        """Which of the rows `going` end in a stop string now."""
        self.can_end = self.can_end.to(tokens.device)
        found = torch.zeros_like(going)
        rows = (self.can_end[tokens[:, -1]] & going).nonzero()[:, 0]
        if len(rows):
            texts = self.chat.decode_all(tokens[rows, -self.window :].tolist())
            hits = [any(stop in text for stop in self.strings) for text in texts]
            found[rows] = torch.tensor(hits, device=tokens.device)
        return found


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string in it."""
    ends = [text.find(one) for one in stop if one in text]
    return text[: min(ends)] if ends else text
