"""Secrets in text and in settings are replaced; everything else stays as it is."""

from __future__ import annotations

import pytest

from vlrft.schema.secrets import REDACTED, redact, redact_settings

KEPT = [
    "max_tokens=1024000000",
    "stop_token: <|im_end|>",
    "image_token: 'aaaaaaaaaaaa'",
    "the answer is token 12345678901",
    "password is short",
    "git@github.com:owner/name",
    "https://host/path?page=12345678",
    "x = 12345678; y: 12345678",
    "",
]
SECRETS = [
    ("https://user:pa@ss@host/x", f"https://{REDACTED}@host/x"),
    ("s3://KEYID:abc@bucket", f"s3://{REDACTED}@bucket"),
    ("https://h/x?a=1&access_token=abc&b=2", f"https://h/x?a=1&access_token={REDACTED}&b=2"),
    ("Authorization: Bearer abcdefgh1234", f"Authorization: Bearer {REDACTED}"),
    ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {REDACTED}"),
    ("X-Api-Key: abcdefgh12", f"X-Api-Key: {REDACTED}"),
    ("task.options.hub_token=abcdefgh12", f"task.options.hub_token={REDACTED}"),
    ("{'password': 'abcdefghi', 'a': 1}", f"{{'password': '{REDACTED}', 'a': 1}}"),
    ("KeyError: 'token=abcdefgh12'", f"KeyError: 'token={REDACTED}'"),
    ("tried hf_abcdefghijklmnopqr.", f"tried {REDACTED}."),
    ("sk-abcdefghijklmnop", REDACTED),
]


@pytest.mark.parametrize("text", KEPT)
def test_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_a_secret_is_replaced_once_and_the_text_around_it_stays(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


def test_values_of_secret_variables_are_replaced_and_of_others_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "canary-0123")
    monkeypatch.setenv("MY_SERVICE_TOKEN_LONG", "canary-0123-and-more")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "canary-4567")
    monkeypatch.setenv("SHORT_KEY", "four")
    text = "at canary-0123-and-more, canary-0123, canary-4567 and four"
    assert redact(text) == f"at {REDACTED}, {REDACTED}, canary-4567 and four"


def test_settings_are_redacted_by_their_names_and_by_their_text() -> None:
    tree = {
        "max_tokens": 5,
        "eos_token": "<e>",
        "hub_token": "t",
        "empty_token": "",
        "rewards": [{"api_key": "k"}, "https://u:p@h"],
    }
    assert redact_settings(tree) == {
        "max_tokens": 5,
        "eos_token": "<e>",
        "hub_token": REDACTED,
        "empty_token": "",
        "rewards": [{"api_key": REDACTED}, f"https://{REDACTED}@h"],
    }
