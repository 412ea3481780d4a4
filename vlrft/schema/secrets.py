"""Removal of secrets from text and from settings before they are written or shown.

A secret is the value of an environment variable whose name says so (`HF_TOKEN`, `WANDB_API_KEY`), the credentials in a
URL, what follows an authorisation header, a token of a well-known form, and the value of a setting whose name says so.
It is replaced by REDACTED. Text without a secret is returned as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

REDACTED = "<redacted>"
SHORTEST = (
    8  # characters of a value in the environment that counts as a secret; shorter ones are words
)
_WORDS = r"token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|authorization|cookie"
_VARIABLE = re.compile(rf"(?:^|_)(?:{_WORDS}|key|auth)s?(?:_|$)", re.IGNORECASE)
_SETTING = re.compile(rf"(?:^|[_-])(?:{_WORDS})$", re.IGNORECASE)
_NO_SETTING = re.compile(  # control tokens of a tokenizer
    r"(?:bos|eos|pad|unk|sep|cls|mask|stop|image|video|vision|audio|special)_token$", re.IGNORECASE
)
_PATTERNS = (
    re.compile(r"()(?<=://)[^\s/'\"]{1,512}(?=@)"),  # user:password of a URL
    re.compile(  # a parameter of a URL
        r"(?<=[?&])((?:[\w-]{0,40}[_-])?(?:token|key|secret|password|signature|sig)=)[^&\s#'\"]+",
        re.IGNORECASE,
    ),
    re.compile(r"(\b(?:bearer|basic)\s{1,8})[\w.~+/-]{8,}=*", re.IGNORECASE),
    re.compile(  # known services, JSON web tokens
        r"()\b(?:(?:hf_|gh[opsur]_|github_pat_|sk-|xox[abprs]-|AKIA|glpat-)[\w-]{12,}"
        r"|eyJ[\w-]{8,1024}\.[\w-]{8,4096}\.[\w-]{8,})"
    ),
)
_ASSIGNED = re.compile(  # a header or a setting, as text
    rf"(?<![\w-])([\w-]{{0,60}}?(?:{_WORDS}))(['\"]?\s{{0,8}}[:=]\s{{0,8}}['\"]?)"
    r"(?!(?:bearer|basic)\s|<redacted>)[^\s'\",;}&]{8,}",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """The text with each secret in it replaced by REDACTED."""
    for value in environment_secrets(os.environ):
        text = text.replace(value, REDACTED)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return _ASSIGNED.sub(lambda m: f"{m[1]}{m[2]}{REDACTED}" if names_secret(m[1]) else m[0], text)


def redact_settings(tree: T) -> T:
    """A copy of a tree of mappings and lists in which texts are redacted, and so are values under the name of a secret."""
    return _redact_tree(tree)  # type: ignore[return-value]


def _redact_tree(tree: object) -> object:
    if isinstance(tree, str):
        return redact(tree)
    if isinstance(tree, list):
        return [_redact_tree(item) for item in tree]
    if isinstance(tree, Mapping):
        return {
            name: REDACTED
            if value and names_secret(str(name)) and isinstance(value, str)
            else _redact_tree(value)
            for name, value in tree.items()
        }
    return tree


def redacted_keys(tree: object, path: str = "") -> list[str]:
    """The keys of a tree, such as `task.options.token`, whose texts contain REDACTED."""
    if isinstance(tree, str):
        return [path] if REDACTED in tree else []
    items: Iterable[tuple[object, object]] = ()
    if isinstance(tree, Mapping):
        items = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    return [
        key for name, item in items for key in redacted_keys(item, f"{path}.{name}".lstrip("."))
    ]


def names_secret(setting: str) -> bool:
    """Whether a setting of this name has a secret as its value."""
    return bool(_SETTING.search(setting)) and not _NO_SETTING.search(setting)


def environment_secrets(environment: Mapping[str, str]) -> list[str]:
    """Values of the variables whose names say that they are secret, the longest first."""
    values = {
        value
        for name, value in environment.items()
        if len(value) >= SHORTEST and _VARIABLE.search(name) and not os.path.exists(value)
    }
    return sorted(values, key=lambda value: (-len(value), value))
