"""Names of a value: `x`, `m_{max}`, `f(x)`, `m\\angle ABC`, `AB`, `(r, \\theta)`.

A name only labels a value, so an answer may leave it out. `2x` and `\\angle A + 10` are no names: an answer that they
equal 10 does not give x, or A.
"""

from __future__ import annotations

from itertools import pairwise

from vlrft.grading.math.unit_names import UNMARKED_M

_ANGLES = (r"\angle", r"\measuredangle")
_FIGURES = (*_ANGLES, r"\triangle", r"\overline", r"\widehat", r"\overparen", r"\overrightarrow")
_MARKS = (r"\vec", r"\bar", r"\hat", r"\tilde", r"\dot", r"\mathrm", r"\mathcal", r"\mathbb")
_NO_LETTERS = (r"\frac", r"\sqrt", r"\pi", r"\infty")


def is_name(side: list[str]) -> bool:
    """Whether the tokens are a name, whatever value is on the other side."""
    return _is_symbol(side) or _figure(side) is not None or coordinates(side) is not None


def is_length(side: list[str], value: list[str]) -> bool:
    """Whether the tokens are a segment, `AB` or `|AB|`, and no product: the value contains no points."""
    ends = _ends(side)
    return len(ends) == 2 and all(map(_is_point, ends)) and not any(map(_is_point, value))


def name_of(side: list[str]) -> str:
    """The name as one text; a segment or an angle has the same name from either end."""
    bare = [token for token in side if token not in ("{", "}")]
    if figure := _figure(side):
        mark, points = figure
        turned = mark in (r"\angle", r"\overline") and points[0] > points[-1]
        bare = [mark, *(reversed(points) if turned else points)]
    if is_length(bare, []):
        bare = sorted(_ends(bare))
    return "".join(token.removeprefix("\\") for token in bare)


def coordinates(side: list[str]) -> list[str] | None:
    """The names in `(x, y)`; None when the tokens are no tuple of names."""
    if len(side) < 5 or side[0] != "(" or side[-1] != ")":
        return None
    names: list[list[str]] = [[]]
    for token in side[1:-1]:
        if token == ",":
            names.append([])
        else:
            names[-1].append(token)
    simple = len(names) > 1 and all(_is_symbol(name) and "(" not in name for name in names)
    return [name_of(name) for name in names] if simple else None


def _is_symbol(side: list[str]) -> bool:
    """A letter, with its index, primes and arguments: `x`, `m_{max}'`, `f(x)`, `f^{-1}(x)`."""
    if len(side) > 3 and side[0] in _MARKS and (side[1], side[3]) == ("{", "}"):
        side = [side[2], *side[4:]]  # \\vec{v}
    if not side or not (_is_letter(side[0]) or _is_command(side[0])):
        return False
    rest = side[1:]
    if rest[:1] == ["_"]:
        rest = rest[rest.index("}") + 1 :] if "{" in rest[:2] and "}" in rest else rest[2:]
    while rest[:1] == ["'"]:
        rest = rest[1:]
    if rest[:5] == ["^", "{", "-", "1", "}"] and rest[5:6] == ["("]:
        rest = rest[5:]  # f⁻¹(x)
    return not rest or (
        rest[0] == "(" and rest[-1] == ")" and all(t.isalnum() or t == "," for t in rest[1:-1])
    )


def _figure(side: list[str]) -> tuple[str, list[str]] | None:
    """The mark of a figure and its points or number: `\\triangle ABC`, `\\angle 1`, `m\\angle{A'BC_1}`."""
    bare = [token for token in side if token not in ("{", "}")]
    if len(bare) > 1 and bare[0] in ("m", '"m', UNMARKED_M) and bare[1] in _ANGLES:
        bare = bare[1:]
    if len(bare) < 2 or bare[0] not in _FIGURES:
        return None
    mark = r"\angle" if bare[0] in _ANGLES else bare[0]
    points: list[str] = []
    for before, token in pairwise(bare):
        if token in ("_", "'") or before == "_":
            if not points or (before == "_" and not token.isalnum()):
                return None
            points[-1] += token
        elif _is_letter(token) or _is_command(token) or (token.isdigit() and len(bare) == 2):
            points.append(token)
        else:
            return None
    return mark, points


def _ends(side: list[str]) -> list[str]:
    return side[1:-1] if len(side) == 4 and side[0] == side[-1] == "|" else side


def _is_letter(token: str) -> bool:
    return len(token) == 1 and token.isalpha()


def _is_command(token: str) -> bool:
    return token[0] == "\\" and token[1:].isalpha() and token not in (*_NO_LETTERS, *_FIGURES)


def _is_point(token: str) -> bool:
    return _is_letter(token) and token.isupper()
