"""Parses the numbers among tokens, exactly: decimals, repeating decimals, mixed numbers.

    12   3.5   4e33   2.\\overline{3}   0.1\\bar{6}   137 1/2

A mixed number with a \\frac is parsed by the grammar, see `formula`.
"""

from __future__ import annotations

from fractions import Fraction

MAX_EXPONENT = 400  # of ten, in a number written with e
_MARKS = [[r"\overline"], [r"\bar"], [r"\dot"]]  # over the digits that repeat


class UnreadableError(ValueError):
    """The tokens are no expression."""


def number_value(token: str) -> Fraction:
    """The value of a token that starts with a digit or a point."""
    digits, _, exponent = token.casefold().partition("e")
    if exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT):
        raise UnreadableError(token)
    return Fraction(digits) * Fraction(10) ** int(exponent or 0)


def starts_number(tokens: list[str], place: int) -> bool:
    """Whether a number begins at the place: with a digit, or with the point of `.5` or `.\\overline{3}`."""
    token = tokens[place]
    return token[0].isdigit() or (
        token[0] == "." and (len(token) > 1 or _period(tokens, place + 1) is not None)
    )


def read_number(tokens: list[str], place: int) -> tuple[Fraction, int]:
    """The number that begins at the place, and the place after it. Raises UnreadableError for tokens that only begin
    like a number."""
    token, end = tokens[place], place + 1
    if token.isdigit() and tokens[end : end + 1] == ["."]:
        token, end = token + ".", end + 1
    period = _period(tokens, end) if "." in token else None
    if period is not None:
        return _repeating_decimal(token, period[0]), period[1]
    token, end = tokens[place], place + 1
    top, slash, bottom = (*tokens[end : end + 3], "", "", "")[:3]
    if token.isdigit() and slash == "/" and top.isdigit() and bottom.isdigit():
        if not 0 < int(top) < int(bottom):
            raise UnreadableError("a mixed number")
        return number_value(token) + Fraction(int(top), int(bottom)), end + 3
    return number_value(token), end


def _period(tokens: list[str], place: int) -> tuple[str, int] | None:
    """The digits under a bar at the place, and the place after them."""
    if tokens[place : place + 1] not in _MARKS:
        return None
    inside = tokens[place + 1 : place + 4]
    if len(inside) == 3 and (inside[0], inside[2]) == ("{", "}") and inside[1].isdigit():
        return inside[1], place + 4
    bare = inside[0] if inside else ""
    return (bare, place + 2) if len(bare) == 1 and bare.isdigit() else None


def _repeating_decimal(prefix: str, period: str) -> Fraction:
    """`2.1` before a period of `36`: 2.1 + 36 / 990."""
    scale = 10 ** len(prefix.partition(".")[2])
    start = Fraction(int("0" + prefix.replace(".", "")), scale)
    return start + Fraction(int(period), scale * (10 ** len(period) - 1))
