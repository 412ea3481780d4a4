"""Stop strings: a completion ends where its text first contains one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from vlrft.policy.chat import Chat

PART_OF_CHARACTER = "\ufffd"  # decoded from some of the bytes of a character
KEPT = 4  # sets of strings, of chats in use, for which the vocabulary has been read


class StopStrings:
    """Finds where rows complete a stop string. Only windows that end with a token which may do so are decoded."""

    def __init__(self, strings: Sequence[str], chat: Chat, vocab_size: int) -> None:
        self.strings = strings
        self.chat = chat
        # A token has at least one byte; one token more, as the string may begin within a token.
        self.window = max(len(text.encode()) for text in strings) + 1
        last = {text[-1] for text in strings} | {PART_OF_CHARACTER}
        texts = chat.decode_all([[i] for i in range(vocab_size)])
        self.can_end = tuple(not last.isdisjoint(text) for text in texts)  # [V]

    def find_first(self, rows: Sequence[Sequence[int]], before: Sequence[int]) -> list[int | None]:
        """For each row the number of tokens with which it first completes a stop string, more than `before`; None where it
        does not."""
        places = [
            (k, end)
            for k, row in enumerate(rows)
            for end in range(before[k] + 1, len(row) + 1)
            if self.can_end[row[end - 1]]
        ]
        windows = [rows[k][max(0, end - self.window) : end] for k, end in places]
        ends: list[int | None] = [None] * len(rows)
        for (k, end), text in zip(places, self.chat.decode_all(windows), strict=True):
            if ends[k] is None and any(stop in text for stop in self.strings):
                ends[k] = end
        return ends


@lru_cache(maxsize=KEPT)
def stop_strings(strings: tuple[str, ...], chat: Chat, vocab_size: int) -> StopStrings:
    """The stop strings of a chat. The whole vocabulary is decoded for them once: it takes a second for 150,000 tokens."""
    return StopStrings(strings, chat, vocab_size)


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string in it."""
    ends = [text.find(string) for string in stop if string in text]
    return text[: min(ends)] if ends else text
