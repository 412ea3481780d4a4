"""Reads a mathematical answer: what form it has, down to its expressions.

    \\text{Evelyn}            Words("Evelyn")
    3\\sqrt{2} cm             Quantity(3·√2, "cm")
    x = 5                    Named("x", Quantity(5))
    1 \\pm \\sqrt{2}; 1, -2   Many of values in any order
    (1, 2]                   Many between brackets, in order
    k \\ge 2                  Named("k", Many(2, ∞) between [ and ))
    5x - 7y = 0              Relation("=", 5x - 7y)

The whole text must be the answer: nothing is searched for in prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from vlrft.grading.formula import Expr, read_formula
from vlrft.grading.notation import tokens, words
from vlrft.grading.reading import MAX_ANSWER
from vlrft.grading.units import MARKED, POWERS, UNITS

_WORDS = re.compile(r"\(?[^\W\d_][^\W\d_ .,'’-]*(?:[ .,'’-]+[^\W\d_]+)*\)?")
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_MARK = re.compile(r"\\(?:text|mbox|textrm|textbf|textit)\b")
_OPEN = {
    "(": ")",
    "[": "]",
    "{": "}",
    r"\{": r"\}",
    r"\langle": r"\rangle",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
}
_CLOSE = set(_OPEN.values())
_RELATIONS = ("=", "<", ">", "≤", "≥", "≠", r"\in")
_MATRICES = ("pmatrix", "bmatrix", "matrix", "Bmatrix", "array")
_SHORT_WORDS = {"no"}
_FLIP = {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}
_INFINITY: Expr = ("const", "infty")


@dataclass(frozen=True)
class Words:
    """An answer in words, or a choice letter in `\\text{…}`."""

    text: str


@dataclass(frozen=True)
class Quantity:
    """An expression and its unit, "" for none."""

    expr: Expr
    unit: str = ""


@dataclass(frozen=True)
class Named:
    """A value with the name it was given: `x = 5`, `f(x) = 2x`, `x \\in [0, 1)`."""

    name: str
    value: Form


@dataclass(frozen=True)
class Many:
    """Several values: in order between their brackets, or in any order when `left` is ""."""

    items: tuple[Form, ...]
    left: str = ""
    right: str = ""


@dataclass(frozen=True)
class Relation:
    """`expr = 0`, `expr < 0`, `expr ≤ 0` or `expr ≠ 0`."""

    sign: str
    expr: Expr


Form = Words | Quantity | Named | Many | Relation


@dataclass(frozen=True)
class Answer:
    """A text and what it can be read as: several forms where a letter may be a unit or a symbol,
    the more likely one first; none when it is no mathematics that we read."""

    text: str  # aloud: without type setting
    literal: str  # its tokens, joined: two answers of equal literals are written alike
    forms: tuple[Form, ...]


def read_math(text: str) -> Answer | None:
    """What the text says; None when it is empty, too long, has a character that no answer has, or
    its brackets do not balance. Never raises; linear time."""
    if not text.strip() or len(text) > MAX_ANSWER:
        return None
    aloud = words(text)
    if _is_words(text, aloud):
        return Answer(aloud, aloud, (Words(aloud),))
    readings = [tokens(_whole_numbers(text), units=units) for units in (True, False)]
    cut = [reading for reading in readings if reading and _balanced(reading)]
    if not cut:
        return None
    if "$" in text and any(token == '"m' for token in cut[0]):
        cut.reverse()  # a slanted m is a symbol
    found = (_form(reading) for reading in cut[: 1 if cut[0] == cut[-1] else 2])
    return Answer(aloud, " ".join(cut[0]), tuple(form for form in found if form is not None))


def _is_words(text: str, aloud: str) -> bool:
    if not _WORDS.fullmatch(aloud) or "\\" in aloud:
        return False
    parts = re.findall(r"[^\W\d_]+", aloud)
    if len(parts) == 1 and (parts[0] in UNITS or tokens(parts[0], units=False) != list(parts[0])):
        return False  # π, x and y
    marked = _MARK.search(text) is not None
    return marked or any(len(part) > 2 or part.casefold() in _SHORT_WORDS for part in parts)


def _whole_numbers(text: str) -> str:
    """Without the commas of `58,500`: only where each comma of the text is one of thousands, and
    none stands between brackets, so that `(312,123,231)` and `2500,7500` stay lists."""
    found = _THOUSANDS.findall(text)
    plain = text.replace(",\\!", "").replace("{,}", "").replace("\\,", "")
    if plain.count(",") != sum(number.count(",") for number in found) or any(
        c in text for c in "(["
    ):
        return text
    return _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)


def _balanced(reading: list[str]) -> bool:
    """Whether brackets close in pairs; a half-open interval may close with the other one."""
    stack: list[str] = []
    for token in reading:
        if token in _OPEN:
            stack.append(token)
        elif token in _CLOSE:
            if not stack:
                return False
            opened = stack.pop()
            if _OPEN[opened] != token and not (opened in "([" and token in ")]"):
                return False
    return not stack


def _form(reading: list[str]) -> Form | None:
    for reader in (_union, _list, _related, _bracketed, _matrix, _quantity):
        applies, found = reader(reading)
        if applies:
            return found
    return None


Reading = tuple[bool, Form | None]  # whether the text is of this form, and what it says if readable


def _split(reading: list[str], separators: tuple[str, ...]) -> list[list[str]]:
    """The parts between separators that stand outside of brackets and environments."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in reading:
        depth += (token in _OPEN or token.startswith(r"\begin")) - (
            token in _CLOSE or token.startswith(r"\end")
        )
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _union(reading: list[str]) -> Reading:
    parts = _split(reading, (r"\cup",))
    if len(parts) == 1:
        return False, None
    head = _split(parts[0], (r"\in",))  # x ∈ A ∪ B
    if len(head) == 2:
        value = _flat([_form(part) for part in [head[1], *parts[1:]]])
        return True, value and Named(_name(head[0]), value)
    return True, _flat([_form(part) for part in parts])


def _list(reading: list[str]) -> Reading:
    parts = _split(reading, (",", ";"))
    if len(parts) == 1:
        return False, None
    if parts[0] == [] or not parts[-1]:
        return True, None
    return True, _flat([_form(part) for part in parts if part])  # `1, 2, and 3` has an empty part


def _flat(items: list[Form | None]) -> Form | None:
    """One collection in any order; collections in any order among the items join it."""
    flat: list[Form] = []
    for item in items:
        if item is None:
            return None
        flat += item.items if isinstance(item, Many) and item.left == "" else (item,)
    return Many(tuple(flat))


def _related(reading: list[str]) -> Reading:
    sides = _split(reading, _RELATIONS)
    signs = [token for token in reading if token in _RELATIONS]
    if len(sides) == 1:
        return False, None
    if len(signs) != len(sides) - 1 or not all(sides) or len(sides) > 3:
        return True, None
    if len(sides) == 3:
        return True, _between(sides, signs)
    left, right, sign = sides[0], sides[1], signs[0]
    if sign in ("=", r"\in") and _is_name(left):
        value = _form(right)
        return True, value and Named(_name(left), value)
    if sign == "=" and _is_name(right) and not _is_name(left):
        value = _form(left)
        return True, value and Named(_name(right), value)
    return True, _half_line(left, sign, right) or _relation(left, sign, right)


def _is_name(side: list[str]) -> bool:
    """`x`, `m_{max}`, `f(x)`, `\\angle ABC`."""
    if side and side[0] in (r"\angle", r"\triangle"):
        return True
    letter = side and (
        (len(side[0]) == 1 and side[0].isalpha()) or (side[0][1:].isalpha() and side[0][0] == "\\")
    )
    if not letter or side[0] in (r"\frac", r"\sqrt", r"\pi"):
        return False
    rest = side[1:]
    if rest[:1] == ["_"]:
        rest = rest[rest.index("}") + 1 :] if "{" in rest[:2] and "}" in rest else rest[2:]
    while rest[:1] == ["'"]:
        rest = rest[1:]
    inner = rest[1:-1]
    return not rest or (
        rest[0] == "(" and rest[-1] == ")" and all(t.isalnum() or t == "," for t in inner)
    )


def _name(side: list[str]) -> str:
    return "".join(token.removeprefix("\\") for token in side if token not in ("{", "}"))


def _relation(left: list[str], sign: str, right: list[str]) -> Form | None:
    a, b = read_formula(left), read_formula(right)
    if a is None or b is None or sign == r"\in":
        return None
    if sign in (">", "≥"):
        a, b, sign = b, a, _FLIP[sign]
    return Relation(sign, ("add", a, ("mul", ("num", Fraction(-1)), b)))


def _half_line(left: list[str], sign: str, right: list[str]) -> Form | None:
    """`x ≥ 2` as [2, ∞)."""
    if sign not in _FLIP:
        return None
    if _is_name(right) and not _is_name(left):
        left, right, sign = right, left, _FLIP[sign]
    bound = _quantity(right)[1]
    if not _is_name(left) or bound is None:
        return None
    infinity = Quantity(_INFINITY)
    if sign in (">", "≥"):
        return Named(_name(left), Many((bound, infinity), "(" if sign == ">" else "[", ")"))
    below = Quantity(("mul", ("num", Fraction(-1)), _INFINITY))
    return Named(_name(left), Many((below, bound), "(", ")" if sign == "<" else "]"))


def _between(sides: list[list[str]], signs: list[str]) -> Form | None:
    """`1 < x ≤ 2` as (1, 2]."""
    low, name, high = sides
    if all(sign in (">", "≥") for sign in signs):
        low, high, signs = high, low, [_FLIP[sign] for sign in reversed(signs)]
    if not _is_name(name) or not all(sign in ("<", "≤") for sign in signs):
        return None
    a, b = _quantity(low)[1], _quantity(high)[1]
    if a is None or b is None:
        return None
    brackets = "(" if signs[0] == "<" else "[", ")" if signs[1] == "<" else "]"
    return Named(_name(name), Many((a, b), *brackets))


def _bracketed(reading: list[str]) -> Reading:
    left, right = reading[0], reading[-1]
    if len(reading) < 2 or left not in ("(", "[", r"\{", r"\langle") or _closes_early(reading):
        return False, None
    inner = reading[1:-1]
    parts = _split(inner, (",", ";"))
    if left == r"\{":
        return True, _flat([_form(part) for part in parts])
    if len(parts) == 1:
        return False, None  # an expression in parentheses
    items = [_form(part) for part in parts]
    known = tuple(item for item in items if item is not None)
    return True, Many(known, left, right) if len(known) == len(items) else None


def _closes_early(reading: list[str]) -> bool:
    """Whether the first bracket closes before the last token: `(1)(2)`."""
    depth = 0
    for place, token in enumerate(reading):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0:
            return place < len(reading) - 1
    return True


def _matrix(reading: list[str]) -> Reading:
    """Rows in order, whatever brackets are drawn around them."""
    kind = reading[0].removeprefix(r"\begin{").removesuffix("}")
    if not reading[0].startswith(r"\begin"):
        return False, None
    if kind not in _MATRICES or reading[-1] != rf"\end{{{kind}}}":
        return True, None
    inner = reading[1:-1]
    if kind == "array" and inner[:1] == ["{"]:
        inner = inner[inner.index("}") + 1 :]
    rows: list[Form] = []
    for row in _split(inner, ("\\\\",)):
        cells = [_form(cell) if cell else None for cell in _split(row, ("&",))]
        known = tuple(cell for cell in cells if cell is not None)
        if len(known) < len(cells) and row:
            return True, None
        rows += [Many(known, "row", "row")] if row else []
    return True, Many(tuple(rows), "matrix", "matrix")


def _quantity(reading: list[str]) -> tuple[bool, Form | None]:
    body, unit = _unit(reading)
    expr = read_formula(body)
    if expr is None:
        return True, None
    while expr[0] == "deg" and not unit:
        expr, unit = expr[1], "°"
    plus, minus = _signs(expr, "±"), _signs(expr, "∓")
    if plus != minus:
        return True, Many((Quantity(plus, unit), Quantity(minus, unit)))
    return True, Quantity(plus, unit)


def _signs(expr: Expr, positive: str) -> Expr:
    """The expression with each ± read as + (and ∓ as -), or the other way round."""
    if expr[0] == "pm":
        inner = _signs(expr[2], positive)
        return inner if expr[1] == positive else ("mul", ("num", Fraction(-1)), inner)
    return tuple(_signs(part, positive) if isinstance(part, tuple) else part for part in expr)


def _unit(reading: list[str]) -> tuple[list[str], str]:
    """The tokens before the unit, and the unit's name; a currency stands before or behind."""
    if reading[0] in ('"$', "€", "£"):
        return reading[1:], reading[0].removeprefix('"')
    body, power = list(reading), ""
    bare = [token for token in reading if token not in ("{", "}")]
    if len(bare) == 3 and bare[1] == "_" and bare[0].isdigit() and bare[2].isdigit():
        return [bare[0]], f"base {bare[2]}"
    if len(body) > 2 and body[-1] == "^":
        body.pop()  # cm^2^
    raised = next((k for k in range(len(body) - 1, max(0, len(body) - 6), -1) if body[k] == "^"), 0)
    if raised > 1 and body[raised - 1][0] == '"':
        power = "".join(token for token in body[raised + 1 :] if token not in ("{", "}"))
        body = body[:raised]
        if not power.removeprefix("-").isdigit():
            return reading, ""
    if len(body) > 2 and body[-2:] == ["'", "'"] and body[-3][0].isdigit():
        return body[:-2], "″"
    if len(body) > 1 and body[-1] in ("%", "€", "£"):
        return body[:-1], body[-1]
    if (len(body) > 3 and body[-2:] == ["^", r"\circ"]) or body[-4:] == ["^", "{", r"\circ", "}"]:
        return reading, ""
    if body[-1] in ("C", "F") and r"\circ" in body[-3:]:
        return body[: -3 if body[-2] == r"\circ" else -5], "°" + body[-1]
    if len(body) > 1 and body[-1][0] == '"':
        name = _unit_name(body[-1][1:])
        while (
            name
            and len(body) > 2
            and body[-2][0] == '"'
            and _unit_name(f"{body[-2][1:]} {body[-1][1:]}")
        ):
            name = _unit_name(f"{body[-2][1:]} {body[-1][1:]}")
            body = [*body[:-2], f'"{body[-2][1:]} {body[-1][1:]}']
        if name:
            return body[:-1], name + (f"^{power}" if power else "")
    return reading, ""


def _unit_name(text: str) -> str:
    """`square cm` and `平方厘米` -> `cm^2`; "" for what is no unit."""
    bare = text.strip(" .")
    for word, power in POWERS.items():
        rest = bare.removeprefix(word).strip()
        if rest != bare and rest in MARKED:
            return f"{MARKED[rest]}^{power}"
    return MARKED.get(bare) or MARKED.get(bare.casefold(), "")
