"""Reads a mathematical answer: what form it has, down to its expressions.

The whole text must be the answer: nothing is searched for in prose.
"""

from __future__ import annotations

import re

from vlrft.grading.math.brackets import balanced, closes_early, split
from vlrft.grading.math.forms import Answer, Form, Many, Named, Quantity, Words
from vlrft.grading.math.names import is_name, name_of
from vlrft.grading.math.notation import tokens, words
from vlrft.grading.math.quantity import read_quantity
from vlrft.grading.math.relations import read_relation
from vlrft.grading.math.wording import read_words
from vlrft.grading.reading import MAX_ANSWER

_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_MATRICES = ("pmatrix", "bmatrix", "matrix", "Bmatrix", "array")


def read_math(text: str) -> Answer | None:
    """What the text says; None when it is empty, too long, has a character that no answer has, or
    its brackets do not balance. Never raises; linear time."""
    if not text.strip() or len(text) > MAX_ANSWER:
        return None
    said = read_words(text)
    if said is not None:
        return Answer(said, said, (Words(said),))
    readings = [tokens(_whole_numbers(text), units=units) for units in (True, False)]
    cut = [reading for reading in readings if reading and balanced(reading)]
    if not cut:
        return None
    if "$" in text and any(token == '"m' for token in cut[0]):
        cut.reverse()  # a slanted m is a symbol
    found = (_form(reading) for reading in cut[: 1 if cut[0] == cut[-1] else 2])
    return Answer(words(text), " ".join(cut[0]), tuple(form for form in found if form is not None))


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


def _form(reading: list[str]) -> Form | None:
    if not reading:
        return None
    for reader in (_union, _list, _relation, _ratio, _matrix, _bracketed):
        applies, found = reader(reading)
        if applies:
            return found
    return read_quantity(reading)


Reading = tuple[bool, Form | None]  # whether the text is of this form, and what it says if readable


def _union(reading: list[str]) -> Reading:
    parts = split(reading, (r"\cup",))
    if len(parts) == 1:
        return False, None
    head = split(parts[0], (r"\in",))  # x ∈ A ∪ B
    if len(head) == 2:
        value = _flat([_form(part) for part in [head[1], *parts[1:]]])
        return True, value and Named(name_of(head[0]), value)
    return True, _flat([_form(part) for part in parts])


def _list(reading: list[str]) -> Reading:
    parts = split(reading, (",", ";"))
    if len(parts) == 1:
        return False, None
    return True, _flat([_form(part) for part in parts])


def _flat(items: list[Form | None]) -> Form | None:
    """One collection in any order; collections in any order among the items join it."""
    flat: list[Form] = []
    for item in items:
        if item is None:
            return None
        flat += item.items if isinstance(item, Many) and item.left == "" else (item,)
    return Many(tuple(flat))


def _relation(reading: list[str]) -> Reading:
    return read_relation(reading, _form)


def _ratio(reading: list[str]) -> Reading:
    """`3:4`, in order and not reduced."""
    parts = split(reading, (":",))
    if len(parts) == 1:
        return False, None
    items = [_form(part) for part in parts]
    known = tuple(item for item in items if item is not None)
    return True, Many(known, ":", ":") if len(known) == len(items) else None


def _bracketed(reading: list[str]) -> Reading:
    left, right = reading[0], reading[-1]
    if len(reading) < 2 or left not in ("(", "[", "{", r"\{", r"\langle") or closes_early(reading):
        return False, None
    inner = reading[1:-1]
    if left == r"\{":
        if not inner:
            return True, Quantity(("sym", "emptyset"))
        condition = split(inner, ("|", ":"))
        if len(condition) == 2 and is_name(condition[0]):
            return True, _where(name_of(condition[0]), _form(condition[1]))
    parts = split(inner, (",", ";"))
    if left == r"\{" or (left == "{" and len(parts) > 1):
        return True, _flat([_form(part) for part in parts])
    if len(parts) == 1:
        return False, None  # an expression in parentheses
    items = [_form(part) for part in parts]
    known = tuple(item for item in items if item is not None)
    return True, Many(known, left, right) if len(known) == len(items) else None


def _where(name: str, condition: Form | None) -> Form | None:
    """The set of `{x | 2 < x < 7}`: what its condition says of x."""
    if not isinstance(condition, Named) or condition.name != name:
        return None
    return condition.value if isinstance(condition.value, Many) else None


def _matrix(reading: list[str]) -> Reading:
    """Rows in order, whatever brackets are drawn around them."""
    if reading[0] in ("(", "[") and reading[1][:6] == r"\begin" and not closes_early(reading):
        reading = reading[1:-1]
    kind = reading[0].removeprefix(r"\begin{").removesuffix("}")
    if not reading[0].startswith(r"\begin"):
        return False, None
    if kind not in _MATRICES or reading[-1] != rf"\end{{{kind}}}":
        return True, None
    inner = reading[1:-1]
    if kind == "array" and inner[:1] == ["{"]:
        inner = inner[inner.index("}") + 1 :]
    rows: list[Form] = []
    for row in split(inner, ("\\\\",)):
        cells = [_form(cell) if cell else None for cell in split(row, ("&",))]
        known = tuple(cell for cell in cells if cell is not None)
        if len(known) < len(cells) and row:
            return True, None
        rows += [Many(known, "row", "row")] if row else []
    return True, Many(tuple(rows), "matrix", "matrix")
