"""Equality of a mathematical answer and the gold answer. Strict: equal, not close, not contained.

Numbers are compared as fractions, exactly. Other expressions are compared by their values to 40 digits, in a worker
with a limit on time and memory (`numeric`, `sandbox`); an expression that exceeds the limits equals nothing. Tuples,
intervals and matrices are ordered; sets, unions and lists of solutions are not.

Units are not converted. A gold answer with a unit equals an answer with the same unit or without one; a gold answer
without a unit equals the value with any unit, and with a name (`x = 5`). `5m` is in metres, but an `m` without a mark is
a symbol between dollar signs (`$5m$`), after a sum (`3 + 2m`) and beside other symbols (`2xm`). `50%` is 0.5; it also equals a bare 50 where
the gold answer is `50%` or a bare 50, which is above 1 and so no share. For a bare whole gold answer above 1 the
percent sign is a unit only: 20 equals `20%`, not `2000%`.

An equation equals another one that is proportional to it; but `x = 5` asks for the value: `2x = 10` does not give it.
Relations without symbols are compared side by side, several writings of one value by all of them (`chains`).

Named values are the coordinates of a point, in the order of the names (`points`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from vlrft.grading.math.answers import read_math
from vlrft.grading.math.chains import same_chain
from vlrft.grading.math.comparison import equal, same
from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import Expr, symbols
from vlrft.grading.math.forms import (
    Chain,
    Collection,
    Form,
    MathAnswer,
    NamedValue,
    Quantity,
    Relation,
    Words,
)
from vlrft.grading.math.points import as_point, has_repeated_letter, split_point
from vlrft.grading.math.relations import as_relation
from vlrft.grading.math.wording import without_article
from vlrft.grading.reading import normalise_text, read_letter

MAX_ITEMS = 64  # of an unordered collection, whose comparison is quadratic

EMPTY = Quantity(("sym", "emptyset"))
read_gold = lru_cache(maxsize=4096)(read_math)


def same_math(gold: MathAnswer, answer: MathAnswer) -> bool:
    """Whether the answer equals the gold answer, which is read in its most likely form."""
    form = gold.forms[0] if gold.forms else None
    if isinstance(form, Words):
        letter = read_letter(form.text)
        return _normalise_words(form.text) == _normalise_words(answer.text) or (
            letter is not None and letter == read_letter(answer.text)
        )
    if gold.literal == answer.literal or gold.text == answer.text:
        return True
    if any(isinstance(other, Words) for other in answer.forms):  # A and \textbf{(A)}
        letter = read_letter(gold.text)
        return letter is not None and letter == read_letter(answer.text)
    return form is not None and any(_same(form, other) for other in answer.forms)


def _normalise_words(text: str) -> str:
    return without_article(normalise_text(text))


def _same(gold: Form, answer: Form) -> bool:
    gold, answer = _without_braces(gold), _without_braces(answer)
    if isinstance(gold, NamedValue) and isinstance(answer, NamedValue):
        if gold.name != answer.name:  # a < b and b > a
            return _has_symbols(gold.value) and _same_relation(gold, answer)
        return _same(gold.value, answer.value)
    if isinstance(gold, Collection) and isinstance(answer, NamedValue):
        answer = split_point(answer) if as_point(gold) else answer
    if isinstance(gold, NamedValue) and isinstance(answer, Collection):
        gold = split_point(gold) if as_point(answer) else gold
    if isinstance(gold, NamedValue) and not isinstance(answer, Relation):
        return _same(gold.value, answer)
    if isinstance(answer, NamedValue) and not isinstance(gold, Relation):
        return _same(gold, answer.value)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _same_relation(gold, answer)
    if isinstance(gold, Collection) and isinstance(answer, Collection):
        return _same_items(*_order_by_name(gold, answer))
    if isinstance(gold, Quantity) and isinstance(answer, Quantity):
        return _same_quantity(gold, answer)
    if isinstance(gold, Quantity | Chain) and isinstance(answer, Quantity | Chain):
        return same_chain(gold, answer, _same_quantity)
    return False


def _without_braces(form: Form) -> Form:
    """The one value of a set of one."""
    if not isinstance(form, Collection) or form.left or len(form.items) != 1:
        return form
    return form if form.items[0] == EMPTY else form.items[0]


def _has_symbols(form: Form) -> bool:
    if isinstance(form, Collection):
        return any(map(_has_symbols, form.items))
    return isinstance(form, Quantity) and bool(symbols(form.expr))


def _order_by_name(gold: Collection, answer: Collection) -> tuple[Collection, Collection]:
    """Both as tuples in the order of the names, where only one of the two names its values.

    The other must be a tuple, or a bare list, unless two names share a letter: `x_1 = 2, x_2 = 5` are solutions.
    """
    a, b = as_point(gold), as_point(answer)
    if (a is None) == (b is None):
        return gold, answer
    named, bare = (gold, answer) if b is None else (answer, gold)
    if bare.left == "" and not has_repeated_letter(named):
        bare = Collection(bare.items, "(", ")")
    if bare.left == "":
        return gold, answer
    return (a, bare) if a is not None else (bare, b or answer)


def _same_items(gold: Collection, answer: Collection) -> bool:
    if (gold.left, gold.right) != (answer.left, answer.right) or len(gold.items) != len(
        answer.items
    ):
        return False
    if gold.left:
        return all(map(_same, gold.items, answer.items))
    if len(gold.items) > MAX_ITEMS:
        return False
    remaining = list(answer.items)
    for item in gold.items:
        match = next((k for k, other in enumerate(remaining) if _same(item, other)), None)
        if match is None:
            return False
        del remaining[match]
    return True


def _same_quantity(gold: Quantity, answer: Quantity) -> bool:
    if gold.unit == answer.unit:
        return equal(gold.expr, answer.expr)
    if gold.unit == "%" or answer.unit == "%":
        return _same_share(gold, answer)
    if gold.unit and answer.unit:
        return False
    if answer.unit == "°" and exact_value(gold.expr) is None:
        return equal(gold.expr, ("deg", answer.expr))
    if gold.unit == "°" and exact_value(answer.expr) is None:
        return equal(("deg", gold.expr), answer.expr) or equal(gold.expr, answer.expr)
    if gold.unit in symbols(answer.expr):  # 300 K without a mark around the K
        return equal(("mul", gold.expr, ("sym", gold.unit)), answer.expr)
    return equal(gold.expr, answer.expr)


def _same_share(gold: Quantity, answer: Quantity) -> bool:
    """Equality of two quantities of which exactly one has a percent sign."""
    if gold.unit == "%":
        same = equal(gold.expr, answer.expr) or equal(_hundredth(gold.expr), answer.expr)
        return answer.unit == "" and same
    if gold.unit or answer.unit != "%":
        return False
    value = exact_value(gold.expr)
    if value is not None and value > 1 and equal(gold.expr, answer.expr):
        return True
    number = value is not None and value > 1 and value.denominator == 1
    return not number and equal(gold.expr, _hundredth(answer.expr))


def _same_relation(gold: Form, answer: Form) -> bool:
    solved = isinstance(gold, NamedValue) and isinstance(gold.value, Quantity)
    if solved and isinstance(gold, NamedValue) and not _has_symbols(gold.value):
        return False  # 2x = 10 is not solved for x
    a, b = as_relation(gold), as_relation(answer)
    return a is not None and b is not None and same(a, b)


def _hundredth(expr: Expr) -> Expr:
    return _times(expr, Fraction(1, 100))


def _times(expr: Expr, factor: Fraction) -> Expr:
    return ("mul", ("num", factor), expr)
