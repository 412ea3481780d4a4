"""Control tokens, such as `<|im_end|>`: the chat template alone writes them; data that spell one get the ids of plain text.

Data are quoted before they enter the template: a private mark follows each character of a control token in them. In the
rendered text the control tokens without marks are the template's. The marks are removed before the text becomes ids, and the
whole text is split and merged as usual; text without quotes is encoded as if this module did not exist.
"""

from __future__ import annotations

import json
import re
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from vlrft.policy.families import answer_markup

MARK_LENGTH = 5  # characters, so that data cannot guess it
PRIVATE_USE = range(0xF0000, 0xFFFFE)  # plane 15; normalizers leave these characters unchanged
BRACKETS = ("<>", "[]")
PIPES = ("<|", "<｜")


class ControlTokens:
    """The control tokens of a tokenizer, and the encoding of text in which some of them are quoted.

    An added token is a control token if it is special or written in brackets (`<tool_call>`). The other added tokens are
    ordinary text: runs of white space, or letters that the rest of the vocabulary lacks.
    """

    ids: Mapping[str, int]
    readable: frozenset[str]
    """Tags that are not special, such as `<think>`: decoded text contains them, and chat templates may look for them."""
    in_answers: frozenset[str]
    """Those that answers may contain: the readable ones, and the families' markup, such as boxes."""
    mark: str
    """Follows each character of a quoted token."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        added: dict[int, Any] = {
            i: t for i, t in tokenizer.added_tokens_decoder.items() if t.content
        }
        special = set(tokenizer.all_special_ids) | {i for i, t in added.items() if t.special}
        control = {i: t for i, t in added.items() if i in special or _is_bracketed(t.content)}
        self.ids = {token.content: i for i, token in control.items()}
        self.readable = frozenset(
            t.content
            for i, t in control.items()
            if i not in special and not t.content.startswith(PIPES)
        )
        self.in_answers = self.readable | (answer_markup() & self.ids.keys())
        self.mark = _random_mark()
        self._alias_mark = _random_mark()
        pattern = _match_longest(control.values())
        self._spelled = re.compile(pattern)
        self._real = re.compile(f"({pattern})(?!{self.mark})")
        normalizer = getattr(self._backend, "normalizer", None)
        self._normalize = None if normalizer is None else normalizer.normalize_str
        self._normalized: dict[
            str, str
        ] = {}  # the normalized form of a token that is met in normalized text -> the token
        if self._normalize is not None:
            tokens = [t.content for t in control.values() if t.normalized]
            self._normalized = {self._normalize(content): content for content in tokens}

    @property
    def _backend(self) -> Any:
        """The Rust tokenizer; None for one that is written in Python."""
        return getattr(self.tokenizer, "backend_tokenizer", None)

    def quote(self, texts: Sequence[str], allowed: Collection[str] = ()) -> list[str]:
        """Consecutive texts of data with a mark after each character of a control token, also of one that begins in one
        text and ends in another. `allowed`: tokens that are not quoted. Raises UnicodeEncodeError for a lone surrogate."""
        joined = "".join(texts)
        joined.encode()  # the tokenizer's own error does not say where
        spans = [m.span() for m in self._spelled.finditer(joined) if m[0] not in allowed]
        if self._is_spelled_by_normalization(joined, allowed):
            spans = [(0, len(joined))]  # where is unknown
        if not spans:
            return list(texts)
        quoted: list[str] = []
        end = 0
        for first, last in spans:
            quoted += [joined[end:first], self.mark.join(joined[first:last]), self.mark]
            end = last
        text = "".join([*quoted, joined[end:]])
        starts = [first for first, _ in spans]
        before = [0, *accumulate(last - first for first, last in spans)]

        def place(k: int) -> int:
            """Where the first k characters of the joined text end in the quoted text."""
            span = bisect_right(starts, k) - 1
            marks = 0 if span < 0 else before[span] + min(k, spans[span][1]) - starts[span]
            return k + marks * len(self.mark)

        cuts = [place(k) for k in accumulate(map(len, texts), initial=0)]
        return [text[a:b] for a, b in pairwise(cuts)]

    def _is_spelled_by_normalization(self, text: str, allowed: Collection[str]) -> bool:
        """Whether the normalized text has more of a token than the text itself."""
        if self._normalize is None or not self._normalized:
            return False
        normal = self._normalize(text)
        return any(
            normal.count(form) > text.count(token)
            for form, token in self._normalized.items()
            if token not in allowed
        )

    def unquote(self, text: str) -> str:
        """The text without marks."""
        return text.replace(self.mark, "")

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text with quotes: a control token that is not quoted has its own id."""
        if self.mark not in text:
            return tuple(self.tokenizer.encode(text, add_special_tokens=False))
        ids = self._encode(text, "")
        real = Counter(self._real.findall(text))
        spelled = set(self._spelled.findall(self.unquote(text)))
        if any(ids.count(self.ids[token]) > real[token] for token in spelled):
            ids = self._encode(
                text, self.mark
            )  # its model has the token as a word, so the word is broken up
        return ids

    def _encode(self, text: str, mark: str) -> tuple[int, ...]:
        """The ids of a text with quotes, with the marks removed, or kept as breaks between the characters."""
        if self._backend is None:
            return self._encode_by_stretches(text, mark)
        text = self._real.sub(lambda token: self._alias(token[1]), text).replace(self.mark, mark)
        ids = self._twin.encode(text, add_special_tokens=False).ids
        return tuple(self._twin_ids.get(i, i) for i in ids if i != self._break_id)

    def _encode_by_stretches(self, text: str, mark: str) -> tuple[int, ...]:
        """The same for a tokenizer written in Python, which encodes the text between control tokens by itself too."""
        ids: list[int] = []
        for k, stretch in enumerate(self._real.split(text)):
            if k % 2:
                ids.append(self.ids[stretch])
                continue
            parts = stretch.split(self.mark) if mark else [self.unquote(stretch)]
            for part in filter(None, parts):
                ids += self.tokenizer.encode(
                    part, add_special_tokens=False, split_special_tokens=True
                )
        return tuple(ids)

    def _alias(self, token: str) -> str:
        return (
            f"{self._alias_mark}{self.ids[token]}{self._alias_mark}" if token in self.ids else token
        )

    @cached_property
    def _twin(self) -> Any:
        """The tokenizer with aliases in place of its control tokens, and the mark as a token of its own."""
        from tokenizers import Tokenizer

        state = json.loads(self._backend.to_str())
        state["truncation"] = state["padding"] = None
        added, vocab = state["added_tokens"], state["model"].get("vocab")
        free = 1 + max(self._backend.get_vocab().values())
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added.append({"id": free, "content": self.mark, "special": True, **flags})
        for token in added:
            token["content"] = self._alias(token["content"])
            if isinstance(vocab, dict):  # where its model has the token, it keeps its id
                vocab.setdefault(token["content"], token["id"])
        return Tokenizer.from_str(json.dumps(state))

    @cached_property
    def _twin_ids(self) -> Mapping[int, int]:
        """Id of an added token in the twin -> its id."""
        return {
            self._twin.token_to_id(self._alias(token.content)): i
            for i, token in self.tokenizer.added_tokens_decoder.items()
        }

    @cached_property
    def _break_id(self) -> int:
        break_id: int = self._twin.token_to_id(self.mark)
        return break_id


def _is_bracketed(content: str) -> bool:
    return len(content) > 2 and content[0] + content[-1] in BRACKETS and not content.isspace()


def _random_mark() -> str:
    return "".join(chr(secrets.choice(PRIVATE_USE)) for _ in range(MARK_LENGTH))


def _match_longest(tokens: Iterable[Any]) -> str:
    """A pattern of the tokens that takes the longest of those that begin at a place, as tokenizers do."""
    patterns = {
        rf"(?<!\w){re.escape(t.content)}(?!\w)" if t.single_word else re.escape(t.content): len(
            t.content
        )
        for t in tokens
    }
    return "|".join(sorted(patterns, key=lambda p: -patterns[p])) or "(?!)"
