"""Answers in words: `\\text{Evelyn}`, `odd`, `March 14`, `3:45 p.m.`"""

from __future__ import annotations

import re

from vlrft.grading.math.notation import TEXT_COMMANDS, strip_typesetting, tokenize
from vlrft.grading.math.unit_names import UNITS

_WORDS = re.compile(
    r"\(?[^\W\d_][^\W\d_ .,'’-]*(?:[ .,'’-]+[^\W\d_]+)*\)?|[^\W\d_]{3,}(?:,? [^\W\d_]{3,}|,? [0-9]{1,4})+"
)
_MARK = re.compile(rf"{TEXT_COMMANDS}\b")
_SHORT_WORDS = {"no"}
_CLOCK = re.compile(r"([0-9]{1,2})\s*(?::|\{:\})\s*([0-9]{2})\s*([ap])\.?\s?m\.?", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:an?|the) (?=[^\W\d_]{3})")


def read_words(text: str) -> str | None:
    """The text without typesetting; None when it is no answer in words."""
    aloud = strip_typesetting(text)
    if clock := _CLOCK.fullmatch(aloud):
        return f"{int(clock[1])}:{clock[2]} {clock[3].lower()}m"
    return aloud if _is_words(text, aloud) else None


def without_article(text: str) -> str:
    """`an ellipse` as `ellipse`, but `A B` as it is. The text is normalised."""
    return _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text


def _is_words(text: str, aloud: str) -> bool:
    if not _WORDS.fullmatch(aloud) or "\\" in aloud:
        return False
    parts = re.findall(r"[^\W\d_]+", aloud)
    numbered = any(character.isdigit() for character in aloud)
    if (numbered or len(parts) == 1) and any(map(_is_mathematics, parts)):
        return False  # π, x and y, sin 30
    marked = _MARK.search(text) is not None
    return marked or any(len(part) > 2 or part.casefold() in _SHORT_WORDS for part in parts)


def _is_mathematics(part: str) -> bool:
    """Whether a word names a unit or a function, or has a sign such as π; a letter of another script is none."""
    tokens = tokenize(part, units=False)
    return part in UNITS or (tokens is not None and tokens != list(part))
