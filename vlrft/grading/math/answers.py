"""Parses a mathematical answer into its form, down to its expressions.

The whole text must be the answer: nothing is searched for in prose.
"""

from __future__ import annotations

import re

from vlrft.grading.math.brackets import closes_early, is_balanced, split_top_level
from vlrft.grading.math.forms import Collection, Form, MathAnswer, NamedValue, Quantity, Words
from vlrft.grading.math.names import is_name, name_of
from vlrft.grading.math.notation import strip_typesetting, tokenize
from vlrft.grading.math.quantity import read_quantity
from vlrft.grading.math.relations import read_relation
from vlrft.grading.math.wording import read_words
from vlrft.grading.reading import MAX_ANSWER

_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_MATRICES = ("pmatrix", "bmatrix", "matrix", "Bmatrix", "array")


def read_math(text: str) -> MathAnswer | None:
    """The parsed text; None when it is empty, too long, contains a character that no answer does, or its brackets do
    not balance. Never raises; linear time."""
    if not text.strip() or len(text) > MAX_ANSWER:
        return None
    in_words = read_words(text)
    if in_words is not None:
        return MathAnswer(in_words, in_words, (Words(in_words),))
    candidates = [tokenize(_whole_numbers(text), units=units) for units in (True, False)]
    readings = [tokens for tokens in candidates if tokens and is_balanced(tokens)]
    if not readings:
        return None
    if "$" in text and any(token == '"m' for token in readings[0]):
        readings.reverse()  # a slanted m is a symbol
    forms = [_form(tokens) for tokens in readings[: 1 if readings[0] == readings[-1] else 2]]
    readable = tuple(form for form in forms if form is not None)
    return MathAnswer(strip_typesetting(text), " ".join(readings[0]), readable)


def _whole_numbers(text: str) -> str:
    """The text without the commas of `58,500`: only where every comma of the text separates thousands and there are
    no brackets, so that `(312,123,231)` and `2500,7500` stay lists."""
    numbers = _THOUSANDS.findall(text)
    plain = text.replace(",\\!", "").replace("{,}", "").replace("\\,", "")
    commas = sum(number.count(",") for number in numbers)
    if plain.count(",") != commas or any(c in text for c in "(["):
        return text
    return _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)


def _form(tokens: list[str]) -> Form | None:
    if not tokens:
        return None
    for reader in (_union, _list, _relation, _ratio, _matrix, _brackets):
        applies, form = reader(tokens)
        if applies:
            return form
    return read_quantity(tokens)


Match = tuple[
    bool, Form | None
]  # whether the tokens have this form, and the form, None if unreadable


def _union(tokens: list[str]) -> Match:
    parts = split_top_level(tokens, (r"\cup",))
    if len(parts) == 1:
        return False, None
    head = split_top_level(parts[0], (r"\in",))  # x ∈ A ∪ B
    if len(head) == 2:
        value = _flat([_form(part) for part in [head[1], *parts[1:]]])
        return True, value and NamedValue(name_of(head[0]), value)
    return True, _flat([_form(part) for part in parts])


def _list(tokens: list[str]) -> Match:
    parts = split_top_level(tokens, (",", ";"))
    if len(parts) == 1:
        return False, None
    return True, _flat([_form(part) for part in parts])


def _flat(items: list[Form | None]) -> Form | None:
    """One collection in any order; items that are such collections are merged into it."""
    flat: list[Form] = []
    for item in items:
        if item is None:
            return None
        flat += item.items if isinstance(item, Collection) and item.left == "" else (item,)
    return Collection(tuple(flat))


def _relation(tokens: list[str]) -> Match:
    return read_relation(tokens, _form)


def _ratio(tokens: list[str]) -> Match:
    """`3:4`, in order and not reduced."""
    parts = split_top_level(tokens, (":",))
    if len(parts) == 1:
        return False, None
    return True, _ordered([_form(part) for part in parts], ":", ":")


def _brackets(tokens: list[str]) -> Match:
    left, right = tokens[0], tokens[-1]
    if len(tokens) < 2 or left not in ("(", "[", "{", r"\{", r"\langle") or closes_early(tokens):
        return False, None
    inner = tokens[1:-1]
    if left == r"\{":
        if not inner:
            return True, Quantity(("sym", "emptyset"))
        condition = split_top_level(inner, ("|", ":"))
        if len(condition) == 2 and is_name(condition[0]):
            return True, _where(name_of(condition[0]), _form(condition[1]))
    parts = split_top_level(inner, (",", ";"))
    if left == r"\{" or (left == "{" and len(parts) > 1):
        return True, _flat([_form(part) for part in parts])
    if len(parts) == 1:
        return False, None  # an expression in parentheses
    return True, _ordered([_form(part) for part in parts], left, right)


def _ordered(items: list[Form | None], left: str, right: str) -> Collection | None:
    """The items in order between brackets; None when one of them cannot be read."""
    readable = tuple(item for item in items if item is not None)
    return Collection(readable, left, right) if len(readable) == len(items) else None


def _where(name: str, condition: Form | None) -> Form | None:
    """The set `{x | 2 < x < 7}`: the values of x that its condition allows."""
    if not isinstance(condition, NamedValue) or condition.name != name:
        return None
    return condition.value if isinstance(condition.value, Collection) else None


def _matrix(tokens: list[str]) -> Match:
    """A matrix: its rows in order, whatever brackets are drawn around them."""
    if tokens[0] in ("(", "[") and tokens[1][:6] == r"\begin" and not closes_early(tokens):
        tokens = tokens[1:-1]
    kind = tokens[0].removeprefix(r"\begin{").removesuffix("}")
    if not tokens[0].startswith(r"\begin"):
        return False, None
    if kind not in _MATRICES or tokens[-1] != rf"\end{{{kind}}}":
        return True, None
    inner = tokens[1:-1]
    if kind == "array" and inner[:1] == ["{"]:
        inner = inner[inner.index("}") + 1 :]
    rows: list[Form] = []
    for row in split_top_level(inner, ("\\\\",)):
        cells = [_form(cell) if cell else None for cell in split_top_level(row, ("&",))]
        readable = tuple(cell for cell in cells if cell is not None)
        if len(readable) < len(cells) and row:
            return True, None
        rows += [Collection(readable, "row", "row")] if row else []
    return True, Collection(tuple(rows), "matrix", "matrix")
