"""Whether an answer says what the gold answer says. Strict: equal, not near, not contained.

Numbers are compared as fractions, exactly. Other expressions are compared by their values to 40
digits, in a worker with a limit on time and memory (`numeric`, `bounded`); an expression that breaks
the limits equals nothing. Tuples, intervals and matrices are ordered; sets, unions and lists of
solutions are not.

Units are not converted. A gold answer with a unit takes the answer with the same unit or without
one; a gold answer without a unit takes any unit, and a name (`x = 5`). `50%` is worth 0.5 and also
equals the bare 50 where the gold answer is `50%`, or is a bare 50 (above 1: no share). A bare whole
gold answer above 1 takes the percent sign as its unit only: 20 is `20%`, not `2000%`.

Values with names are those of a point, in the order of the names (`points`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache

from vlrft.grading.math.answers import read_math
from vlrft.grading.math.exact import exact_value
from vlrft.grading.math.expression import Expr
from vlrft.grading.math.forms import Answer, Form, Many, Named, Quantity, Relation, Words
from vlrft.grading.math.formula import read_formula
from vlrft.grading.math.notation import tokens
from vlrft.grading.math.numeric import agree, proportional
from vlrft.grading.math.relations import as_relation
from vlrft.grading.math.sandbox import SandboxedWorker
from vlrft.grading.math.wording import without_article
from vlrft.grading.points import point, solutions, spread
from vlrft.grading.reading import plain, read_letter

SECONDS = 5.0  # for one comparison of two expressions; the slowest real one takes a hundredth of it
NEEDS = ("mpmath:mp",)
MAX_ITEMS = 64  # of a collection in any order

read_gold = lru_cache(maxsize=4096)(read_math)


def same_math(gold: Answer, answer: Answer) -> bool:
    """Whether the answer is the gold one, read by the gold answer's likeliest form."""
    form = gold.forms[0] if gold.forms else None
    if isinstance(form, Words):
        letter = read_letter(form.text)
        return _worded(form.text) == _worded(answer.text) or (
            letter is not None and letter == read_letter(answer.text)
        )
    if gold.literal == answer.literal or gold.text == answer.text:
        return True
    return form is not None and any(_same(form, other) for other in answer.forms)


def _worded(text: str) -> str:
    return without_article(plain(text))


def equal_formulas(a: str, b: str) -> bool:
    """Whether two plain expressions are equal; evaluates in this process: call it in a worker."""
    found = [read_formula(tokens(text, units=False) or []) for text in (a, b)]
    return found[0] is not None and found[1] is not None and agree(found[0], found[1])


@cache
def sandboxed_worker() -> SandboxedWorker:
    """The one process that compares expressions for this process."""
    return SandboxedWorker()


def _same(gold: Form, answer: Form) -> bool:
    if isinstance(gold, Named) and isinstance(answer, Named):
        return gold.name == answer.name and _same(gold.value, answer.value)
    if isinstance(gold, Many) and isinstance(answer, Named):
        answer = spread(answer) if point(gold) else answer
    if isinstance(gold, Named) and isinstance(answer, Many):
        gold = spread(gold) if point(answer) else gold
    if isinstance(gold, Named) and not isinstance(answer, Relation):
        return _same(gold.value, answer)
    if isinstance(answer, Named) and not isinstance(gold, Relation):
        return _same(gold, answer.value)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _same_relation(gold, answer)
    if isinstance(gold, Many) and isinstance(answer, Many):
        return _same_items(*_placed(gold, answer))
    if isinstance(gold, Quantity) and isinstance(answer, Quantity):
        return _same_quantity(gold, answer)
    return False


def _placed(gold: Many, answer: Many) -> tuple[Many, Many]:
    """Where only one of the two names its values, both as tuples in the order of the names: against
    a tuple, and against a bare list unless all the names are those of one letter."""
    a, b = point(gold), point(answer)
    if (a is None) == (b is None):
        return gold, answer
    named, bare = (gold, answer) if b is None else (answer, gold)
    if bare.left == "" and not solutions(named):
        bare = Many(bare.items, "(", ")")
    if bare.left == "":
        return gold, answer
    return (a, bare) if a is not None else (bare, b or answer)


def _same_items(gold: Many, answer: Many) -> bool:
    if (gold.left, gold.right) != (answer.left, answer.right) or len(gold.items) != len(
        answer.items
    ):
        return False
    if gold.left:
        return all(map(_same, gold.items, answer.items))
    if len(gold.items) > MAX_ITEMS:
        return False
    left = list(answer.items)
    for item in gold.items:
        found = next((k for k, other in enumerate(left) if _same(item, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _same_quantity(gold: Quantity, answer: Quantity) -> bool:
    if gold.unit == answer.unit:
        return _equal(gold.expr, answer.expr)
    if gold.unit == "%" or answer.unit == "%":
        return _same_share(gold, answer)
    if gold.unit and answer.unit:
        return False
    if answer.unit == "°" and exact_value(gold.expr) is None:
        return _equal(gold.expr, ("deg", answer.expr))
    return _equal(gold.expr, answer.expr)


def _same_share(gold: Quantity, answer: Quantity) -> bool:
    """Where one of the two has a percent sign and the other has not."""
    if gold.unit == "%":
        same = _equal(gold.expr, answer.expr) or _equal(_hundredth(gold.expr), answer.expr)
        return answer.unit == "" and same
    if gold.unit or answer.unit != "%":
        return False
    worth = exact_value(gold.expr)
    if worth is not None and worth > 1 and _equal(gold.expr, answer.expr):
        return True
    many = worth is not None and worth > 1 and worth.denominator == 1
    return not many and _equal(gold.expr, _hundredth(answer.expr))


def _same_relation(gold: Form, answer: Form) -> bool:
    a, b = as_relation(gold), as_relation(answer)
    if a is None or b is None or a.sign != b.sign:
        return False
    sign = sandboxed_worker().call(proportional, (a.expr, b.expr), SECONDS, NEEDS) or 0
    return sign != 0 if a.sign in ("=", "≠") else sign > 0


def _equal(a: Expr, b: Expr) -> bool:
    if a == b:
        return True
    exact_a, exact_b = exact_value(a), exact_value(b)
    if exact_a is not None and exact_b is not None:
        return exact_a == exact_b
    return sandboxed_worker().call(agree, (a, b), SECONDS, NEEDS) is True


def _hundredth(expr: Expr) -> Expr:
    return _times(expr, Fraction(1, 100))


def _times(expr: Expr, factor: Fraction) -> Expr:
    return ("mul", ("num", factor), expr)
