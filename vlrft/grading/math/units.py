"""Splits the unit off a value: `9.8 \\text{ m/s}^2` is 9.8 and `m·s^-2`. No conversion."""

from __future__ import annotations

import re
from collections import Counter

from vlrft.grading.math.brackets import split_top_level
from vlrft.grading.math.commands import GREEK
from vlrft.grading.math.unit_names import MARKED, POWERS, UNMARKED_M

MAX_TOKENS = 40  # of a unit
_FUNCTIONS = {r"\sin", r"\cos", r"\tan", r"\cot", r"\sec", r"\csc"}
_DEGREES = (["^", r"\circ"], ["^", "{", r"\circ", "}"])
_SIGNS = ("+", "-", "±", "∓")
_OPERATORS = ("^", "/", r"\cdot")
_CONSTANTS = "ei"
_GREEK = {f"\\{name}" for name in GREEK}
_WORD = re.compile(r"[^\s/^*·]+|[/^]")
_POWERS_AFTER = {"squared": 2, "cubed": 3}
_DIGITS = {
    "binary": 2,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
}
_BASES = {str(base): base for base in range(2, 17)} | _DIGITS

Factors = list[tuple[str, int]]  # name, power


def split_unit(tokens: list[str]) -> tuple[list[str], str]:
    """The tokens of the value, and the unit's name; a currency is before or after the value."""
    if tokens[0] in ('"$', "€", "£"):
        return tokens[1:], tokens[0].removeprefix('"')
    if base := _base(tokens):
        return base
    tokens = _with_seconds(tokens)
    body = tokens[:-1] if len(tokens) > 2 and tokens[-1] == "^" else tokens  # cm^2^
    if len(body) > 2 and body[-2:] == ["'", "'"] and body[-3][0].isdigit():
        return body[:-2], "″"
    if len(body) > 1 and body[-1] in ("%", "€", "£", '"$'):
        return body[:-1], body[-1].removeprefix('"')
    for tail in _DEGREES:
        if len(body) > len(tail) and body[-len(tail) :] == tail and not _FUNCTIONS & set(body):
            return body[: -len(tail)], "°"  # of the whole: 45/2°
    if body[-1] in ("C", "F", '"C', '"F') and r"\circ" in body[-3:]:
        return body[: -3 if body[-2] == r"\circ" else -5], "°" + body[-1][-1]
    if body[-1] == "}" and body[-2][0] == '"' and "{" in body[1:]:  # 3{\\rm cm}
        start = max(k for k, token in enumerate(body) if token == "{")
        factors = _read_product(body[start + 1 : -1])
        if factors and body[start - 1][0] not in "^_\\}":
            return body[:start], _name(factors)
    for start in range(max(1, len(body) - MAX_TOKENS), len(body)):
        if body[start][0] == '"' or body[start] in (r"\frac", r"\mu"):
            factors = _read_product(body[start:])
            if factors and not _is_symbol_m(body[:start], body[start:]):
                return body[:start], _name(factors)
    return tokens, ""


def _is_symbol_m(value: list[str], unit: list[str]) -> bool:
    """Whether an `m` without a mark, of which the unit consists but for what is divided, is a symbol: after a sum, as in
    `3 + 2m`, and beside other symbols, as in `2xm`."""
    if any(token[0] == '"' and token != UNMARKED_M for token in unit) or UNMARKED_M not in unit:
        return False
    return _is_sum(value) or any(
        (len(token) == 1 and token.isalpha() and token not in _CONSTANTS) or token in _GREEK
        for token in value
    )


def _is_sum(value: list[str]) -> bool:
    """Whether a sign outside of brackets joins two terms; `-5` and `10^-3` are one."""
    *terms, _ = split_top_level(value, _SIGNS)
    return any(term and term[-1] not in _OPERATORS for term in terms)


def _with_seconds(tokens: list[str]) -> list[str]:
    """The tokens with a text for a secant at the end, which has no operand and so is the unit: `4 \\sec`, `m/\\sec^2`."""
    if r"\sec" not in tokens:
        return tokens
    place = len(tokens) - 1 - tokens[::-1].index(r"\sec")
    _, end = _exponent(tokens, place + 1)
    return tokens if end < len(tokens) else [*tokens[:place], '"sec', *tokens[place + 1 :]]


def _base(tokens: list[str]) -> tuple[list[str], str] | None:
    """The digits and the name of their base, in `1101_2` and `413_{\\text{five}}`."""
    bare = [token for token in tokens if token not in ("{", "}")]
    if len(bare) != 3 or bare[1] != "_" or not bare[0].isdigit():
        return None
    base = _BASES.get(bare[2].removeprefix('"'))
    return ([bare[0]], f"base {base}") if base and int(max(bare[0])) < base else None


def _name(factors: Factors) -> str:
    powers: Counter[str] = Counter()
    for name, power in factors:
        powers[name] += power
    if powers["°C"] or powers["°F"]:
        del powers["°"]  # degrees Celsius
    return "·".join(
        name if power == 1 else f"{name}^{power}" for name, power in sorted(powers.items()) if power
    )


def _read_product(tokens: list[str]) -> Factors | None:
    """The factors of `"m / s ^ 2`, `"m \\cdot "s ^ { - 2 }` or `\\frac { "m } { "s ^ 2 }`; None when a token is none."""
    factors: Factors = []
    place, sign = 0, 1
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if token in ("/", r"\cdot") and factors:
            sign = -1 if token == "/" else 1
            continue
        read: Factors | None
        micro = token == r"\mu" and tokens[place : place + 1] != [] and tokens[place][0] == '"'
        if micro:
            token, place = tokens[place], place + 1
        if token == r"\frac":
            read, place = _read_fraction(tokens, place)
        else:
            text = token[1:] if token[0] == '"' else token if sign < 0 else ""
            if text in POWERS and place < len(tokens) and tokens[place][0] == '"':
                text += " " + tokens[place][1:]
                place += 1
            read = _read_text(text)
        if not read:
            return None
        if micro:
            read[0] = ("μ" + read[0][0], read[0][1])
        power, place = _exponent(tokens, place)
        *others, (name, last) = read  # m/s² is m/(s²)
        factors += [(of, sign * count) for of, count in [*others, (name, last * power)]]
        sign = 1
    return factors


def _read_fraction(tokens: list[str], place: int) -> tuple[Factors | None, int]:
    """The factors of the fraction whose arguments begin at the place, and the place after them."""
    parts = _arguments(tokens, place)
    if parts is None:
        return None, place
    (top, bottom), place = parts
    above, below = _read_product(top), _read_product(bottom)
    if not above or not below:
        return None, place
    return [*above, *((name, -power) for name, power in below)], place


def _arguments(tokens: list[str], place: int) -> tuple[tuple[list[str], list[str]], int] | None:
    """The tokens in the next two pairs of braces, which hold no further braces but those of exponents."""
    parts: list[list[str]] = []
    for _ in range(2):
        depth, start = 0, place
        while place < len(tokens):
            depth += (tokens[place] == "{") - (tokens[place] == "}")
            place += 1
            if depth == 0:
                break
        if depth or place - start < 3 or r"\frac" in tokens[start:place]:
            return None
        parts.append(tokens[start + 1 : place - 1])
    return (parts[0], parts[1]), place


def _exponent(tokens: list[str], place: int) -> tuple[int, int]:
    """The exponent at the place and the place after it; 1 for none."""
    if tokens[place : place + 1] != ["^"]:
        return 1, place
    end = place + 2
    if tokens[place + 1 : place + 2] == ["{"]:
        while end < len(tokens) and tokens[end] != "}":
            end += 1
        end += 1
    elif tokens[place + 1 : place + 2] == ["-"]:
        end += 1
    digits = "".join(token for token in tokens[place + 1 : end] if token not in ("{", "}"))
    return (int(digits), end) if re.fullmatch("-?[1-9]", digits) else (1, place)


def _read_text(text: str) -> Factors | None:
    """The factors of `square cm`, `cm^2`, `miles per hour`, `m s`; None for a text that is no unit."""
    factors: Factors = []
    words = _WORD.findall(text.strip(" .").replace(" per ", "/"))
    if len(words) > MAX_TOKENS:
        return None
    power, sign = 1, 1
    for before, word in zip(["", *words], words, strict=False):
        raised = _POWERS_AFTER.get(word, int(word) if re.fullmatch("-?[1-9]", word) else 0)
        if factors and (word in _POWERS_AFTER or before == "^"):
            factors[-1] = (factors[-1][0], factors[-1][1] * raised)
            if not raised:
                return None
        elif word == "/" and factors:
            sign = -1
        elif word.strip(".") in POWERS:
            power = POWERS[word.strip(".")]
        elif word != "^" or not factors:
            prefix = next((name for name in ("平方", "立方") if word.startswith(name)), "")
            name = _canonical(word.removeprefix(prefix).strip("."))
            if not name:
                return None
            of, slash, per = name.partition("/")
            power *= sign * POWERS.get(prefix, 1)
            factors += [(of, power), (per, -power)] if slash else [(of, power)]
            power, sign = 1, 1
    return factors if power == sign == 1 else None


def _canonical(word: str) -> str:
    return MARKED.get(word) or MARKED.get(word.casefold(), "")
