"""Stop strings."""

from __future__ import annotations

import pytest
import torch

from tests.conftest import Tiny
from vlrft.rollout.engines.stop_strings import StopStrings, cut_at_stop


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (("123456",), "so 123456"),  # a token a digit
        (("é!",), "café!"),  # a character of two bytes, a token each
        (("漢",), "a 漢"),  # the last character in three tokens
        (("zz", "answer"), "the answer"),
        (("answer",), "</answer"),  # begins within a token
    ],
)
def test_a_stop_string_is_found_with_its_last_token(
    tiny: Tiny, stop: tuple[str, ...], text: str
) -> None:
    policy = tiny("qwen2")
    chat = policy.chat
    strings = StopStrings(stop, chat, len(policy.banned))
    ids = chat.tokenizer.encode("one two " + text)
    completed = [
        bool(strings.find_completed(torch.tensor([ids[: t + 1]]), torch.tensor([True])))
        for t in range(len(ids))
    ]
    assert completed == [False] * (len(ids) - 1) + [True]
    assert not strings.find_completed(torch.tensor([ids]), torch.tensor([False]))


def test_the_text_ends_before_the_first_stop_string() -> None:
    assert cut_at_stop("a b c", ("c", "b")) == "a "
    assert cut_at_stop("a b c", ("x",)) == "a b c"
    assert cut_at_stop("a", ()) == "a"
