"""Parses a mathematical answer into its form, down to its expressions.

The whole text must be the answer: nothing is searched for in prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from vlrft.grading.boxed import strip_box
from vlrft.grading.math.brackets import closes_early, is_balanced, split_top_level
from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import BELOW, INFINITY
from vlrft.grading.math.forms import Collection, Form, MathAnswer, NamedValue, Quantity, Words
from vlrft.grading.math.names import is_name, name_of
from vlrft.grading.math.notation import AND, strip_typesetting, tokenize
from vlrft.grading.math.quantity import read_quantity
from vlrft.grading.math.relations import intersect, read_relation
from vlrft.grading.math.unit_names import UNMARKED_M
from vlrft.grading.math.wording import read_words
from vlrft.grading.reading import MAX_ANSWER, join_accents

_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_BOLD = re.compile(r"\A\s*\*\*([^*]+)\*\*\s*\Z")  # Markdown
_BRACKETS = {"(", "[", r"\{"}
_MATRICES = ("pmatrix", "bmatrix", "matrix", "Bmatrix", "array", "smallmatrix")
_WHOLE = [("sym", f"mathbb {letter}") for letter in "ZN"]
_REALS = [r"\mathbb", "{", "R", "}"]
MAX_NESTING = 12  # forms in forms; a list of points named by their coordinates has four

Read = Callable[[list[str]], Form | None]
Match = tuple[
    bool, Form | None
]  # whether the tokens have this form, and the form, None if unreadable


def read_math(text: str) -> MathAnswer | None:
    """The parsed text; None when it is empty, too long, contains a character that no answer does, or its brackets do
    not balance. A box around the whole of it is taken off. Never raises; linear time."""
    text = join_accents(strip_box(_BOLD.sub(r"\1", text)))
    if not text.strip() or len(text) > MAX_ANSWER:
        return None
    in_words = read_words(text)
    if in_words is not None:
        return MathAnswer(in_words, in_words, (Words(in_words),))
    candidates = [tokenize(_whole_numbers(text), units=units) for units in (True, False)]
    readings = [tokens for tokens in candidates if tokens and is_balanced(tokens)]
    if not readings:
        return None
    if "$" in text and UNMARKED_M in readings[0]:
        readings.reverse()  # a slanted m is a symbol
    forms = [_form(tokens) for tokens in readings[: 1 if readings[0] == readings[-1] else 2]]
    readable = tuple(form for form in forms if form is not None)
    return MathAnswer(strip_typesetting(text), " ".join(readings[0]), readable)


def _whole_numbers(text: str) -> str:
    """The text without the commas of `58,500`: only where every comma of the text separates thousands and there are
    no brackets, so that `(312,123,231)`, `\\{100,200\\}` and `2500,7500` stay lists."""
    numbers = _THOUSANDS.findall(text)
    plain = text.replace(",\\!", "").replace("{,}", "").replace("\\,", "")
    commas = sum(number.count(",") for number in numbers)
    if not commas or plain.count(",") != commas or _BRACKETS & set(tokenize(text) or ()):
        return text
    return _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)


def _form(tokens: list[str], nesting: int = 0) -> Form | None:
    """The tokens' form. Each level of nesting scans its tokens a few times, so their number is what bounds the work."""
    if not tokens or nesting > MAX_NESTING:
        return None

    def read(part: list[str]) -> Form | None:
        return _form(part, nesting + 1)

    if tokens[: len(_REALS)] == _REALS:
        return _reals(tokens[len(_REALS) :], read)
    for reader in (_union, _list, read_relation, _ratio, _matrix, _brackets):
        applies, form = reader(tokens, read)
        if applies:
            return form
    return read_quantity(tokens)


def _reals(rest: list[str], read: Read) -> Form | None:
    """The real numbers, or those without a set of numbers: `\\mathbb{R} \\setminus \\{1, 2\\}`."""
    removed = read(rest[1:]) if rest[:1] == [r"\setminus"] else Collection(())
    if (rest and rest[0] != r"\setminus") or not isinstance(removed, Collection) or removed.left:
        return None
    points = [
        (exact_value(item.expr), item) for item in removed.items if isinstance(item, Quantity)
    ]
    known = sorted((value, item.expr) for value, item in points if value is not None)
    if len(known) < len(removed.items):
        return None
    ends = [Quantity(BELOW), *(Quantity(expr) for _, expr in known), Quantity(INFINITY)]
    intervals = tuple(Collection((low, high), "(", ")") for low, high in pairwise(ends))
    return intervals[0] if len(intervals) == 1 else Collection(intervals)


def _union(tokens: list[str], read: Read) -> Match:
    parts = split_top_level(tokens, (r"\cup",))
    if len(parts) == 1:
        return False, None
    head = split_top_level(parts[0], (r"\in",))  # x ∈ A ∪ B
    if len(head) == 2:
        value = _flat([read(part) for part in [head[1], *parts[1:]]])
        return True, value and NamedValue(name_of(head[0]), value)
    return True, _flat([read(part) for part in parts])


def _list(tokens: list[str], read: Read) -> Match:
    parts = split_top_level(tokens, (",", ";", AND))
    if len(parts) == 1:
        return False, None
    forms = [read(part) for part in parts]
    stated = [form for form in forms if form is None or not _is_domain(form)]
    if len(stated) == 1:
        return True, stated[0]  # π/6 + 2kπ, k ∈ ℤ
    if len(parts) == 2 and tokens[len(parts[0])] == AND:
        both = intersect(*forms)  # x ≥ 2 and x < 5
        if both is not None:
            return True, both
    return True, _flat(forms)


def _is_domain(form: Form) -> bool:
    """Whether the form only says where a symbol is from: `k \\in \\mathbb{Z}`."""
    value = form.value if isinstance(form, NamedValue) else None
    return isinstance(value, Quantity) and value.expr in _WHOLE


def _flat(items: list[Form | None]) -> Form | None:
    """One collection in any order; items that are such collections are merged into it."""
    flat: list[Form] = []
    for item in items:
        if item is None:
            return None
        flat += item.items if isinstance(item, Collection) and item.left == "" else (item,)
    return Collection(tuple(flat))


def _ratio(tokens: list[str], read: Read) -> Match:
    """`3:4`, in order and not reduced."""
    parts = split_top_level(tokens, (":",))
    if len(parts) == 1:
        return False, None
    return True, _ordered([read(part) for part in parts], ":", ":")


def _brackets(tokens: list[str], read: Read) -> Match:
    left, right = tokens[0], tokens[-1]
    if len(tokens) < 2 or left not in ("(", "[", "{", r"\{", r"\langle") or closes_early(tokens):
        return False, None
    inner = tokens[1:-1]
    if left == r"\{":
        if not inner:
            return True, Quantity(("sym", "emptyset"))
        condition = split_top_level(inner, ("|", ":"))
        if len(condition) == 2 and is_name(condition[0]):
            return True, _where(name_of(condition[0]), read(condition[1]))
    parts = split_top_level(inner, (",", ";", AND) if left in (r"\{", "{") else (",", ";"))
    if left == "{" and len(parts) == 1:
        return True, read(inner)  # what a box or a mark leaves
    if left in (r"\{", "{"):
        return True, _flat([read(part) for part in parts])
    if len(parts) == 1:
        return False, None  # an expression in parentheses
    return True, _ordered([read(part) for part in parts], left, right)


def _ordered(items: list[Form | None], left: str, right: str) -> Collection | None:
    """The items in order between brackets; None when one of them cannot be read."""
    readable = tuple(item for item in items if item is not None)
    return Collection(readable, left, right) if len(readable) == len(items) else None


def _where(name: str, condition: Form | None) -> Form | None:
    """The set `{x | 2 < x < 7}`: the values of x that its condition allows."""
    if isinstance(condition, Collection) and condition.left == "":  # x < 0 or x > 1
        return _flat([_where(name, part) for part in condition.items])
    if not isinstance(condition, NamedValue) or condition.name != name:
        return None
    return condition.value if isinstance(condition.value, Collection) else None


def _matrix(tokens: list[str], read: Read) -> Match:
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
        cells = [read(cell) if cell else None for cell in split_top_level(row, ("&",))]
        readable = tuple(cell for cell in cells if cell is not None)
        if len(readable) < len(cells) and row:
            return True, None
        rows += [Collection(readable, "row", "row")] if row else []
    return True, Collection(tuple(rows), "matrix", "matrix")
