"""Stop strings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conftest import Tiny
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.stop_strings import StopStrings, cut_at_stop, stop_strings
from vlrft.testing.small_policies import ask


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
    for before in range(len(ids)):  # whatever was looked at earlier
        assert strings.find_first([ids[:-1], ids, ids + ids], [0, before, before]) == [
            None,
            len(ids),
            len(ids),
        ]
    assert strings.find_first([ids], [len(ids)]) == [None]


def test_the_vocabulary_is_read_once_for_the_same_strings(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2")
    reads: list[int] = []
    decode_all = policy.chat.decode_all

    def count(rows: Sequence[Sequence[int]]) -> list[str]:
        reads.append(len(rows))
        return decode_all(rows)

    monkeypatch.setattr(policy.chat, "decode_all", count)
    request = Request(id="s", prompt=policy.chat.render(ask("How many?")), seeds=(0,))
    for _ in range(3):
        HfEngine(policy).generate([request], Sampling(max_tokens=2, stop=("once only",)))
    assert reads.count(len(policy.banned)) == 1
    assert stop_strings(("twice",), policy.chat, len(policy.banned)).strings == ("twice",)


def test_the_text_ends_before_the_first_stop_string() -> None:
    assert cut_at_stop("a b c", ("c", "b")) == "a "
    assert cut_at_stop("a b c", ("x",)) == "a b c"
    assert cut_at_stop("a", ()) == "a"
