"""Labels of a value, which say what it is and which no other writing repeats: `P(X = 1) = 0.5`, `\\text{Area} = 3`,
`|S| = 4`, `[ABC] = 6`, `\\lim_{x \\to 0} f(x) = 1`.

A label is left out of the answer. `|x| = 5` and `\\text{not } x = 5` have none: neither gives a value.
"""

from __future__ import annotations

import re

from vlrft.grading.math.brackets import closes_early
from vlrft.grading.math.unit_names import MARKED

_OPERATORS = {
    r"\lim", r"\int", r"\iint", r"\iiint", r"\oint", r"\sum", r"\prod", r"\det", r"\gcd", r"\dim", r"\deg", r"\Re",
    r"\Im", r"\sup", r"\inf", r"\limsup", r"\liminf", r"\arg",
}  # fmt: skip
_PROBABILITIES = {"P", "E", r"\Pr", '"P', '"Pr', '"E', '"Var', '"Cov'}
_INSIDE = {
    "=",
    "<",
    ">",
    "≤",
    "≥",
    "≠",
    "|",
    r"\in",
    r"\cap",
    r"\cup",
}  # of a probability's brackets
_WORDS = re.compile(r"[^\W\d_]{2,}(?: [^\W\d_]+){0,7}")
_NEGATIONS = {"not", "no", "never", "nor", "neither", "isn", "isnt", "unlike", "without", "except"}


def is_label(side: list[str]) -> bool:
    """Whether the tokens only say what the value on the other side is."""
    if not side:
        return False
    if side[0] in _OPERATORS:
        return len(side) > 1
    if side[0] in _PROBABILITIES and len(side) > 3 and side[1] in ("(", "["):
        inner = side[2:-1]
        letters = all((token.isalnum() and not token.islower()) or token == "," for token in inner)
        return not closes_early(side[1:]) and (letters or not _INSIDE.isdisjoint(inner))
    if side[0][0] == '"' and side[0][1:] not in MARKED:
        words = _WORDS.fullmatch(side[0][1:].strip())
        negated = words and not _NEGATIONS.isdisjoint(words[0].casefold().split())
        return words is not None and not negated and all(map(_is_figure, side[1:]))
    points = side[1:-1]
    if (side[0], side[-1]) == ("|", "|"):
        return len(points) == 1 and _is_point(points[0])
    return (side[0], side[-1]) == ("[", "]") and len(points) > 2 and all(map(_is_point, points))


def _is_figure(token: str) -> bool:
    """Whether the token may follow words: a point, a letter in parentheses, a triangle."""
    return token in ("(", ")", "{", "}", "_", r"\triangle", r"\angle") or (
        len(token) == 1 and token.isalpha()
    )


def _is_point(token: str) -> bool:
    return len(token) == 1 and token.isalpha() and token.isupper()
