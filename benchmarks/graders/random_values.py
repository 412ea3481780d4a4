"""Random values: numbers, expressions and functions with branches, their identities, changes and certificates."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy as sp  # type: ignore[import-untyped]

X, Y = sp.symbols("x y", real=True)
POINTS = [
    *(-1009.37, -57.3, -9.41, -2.6, -0.713, -0.0127, 0.0391, 0.62, 1.83, 4.19, 23.7, 611.9, 20011.3)
]
Text = Callable[[Any], str]


class Pair(NamedTuple):
    """A gold answer, an answer to it, and whether they are equal."""

    kind: str
    gold: str
    answer: str
    equal: bool


def plain(value: Any) -> str:
    return str(sp.latex(value))


def wide(value: Any) -> str:
    return plain(value).replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", "")


def powers(value: Any) -> str:
    """Roots as powers."""
    return str(sp.latex(value, root_notation=False))


def dotted(value: Any) -> str:
    return str(sp.latex(value, mul_symbol="dot"))


def times(value: Any) -> str:
    return str(sp.latex(value, mul_symbol="times", fold_short_frac=True))


def spaced(value: Any) -> str:
    return plain(value).replace(" + ", r"\; + \;").replace(" - ", r"\,-\,")


PRINTERS: list[Text] = [plain, plain, wide, powers, dotted, times, spaced]


def wrap(draw: random.Random, text: str) -> str:
    """Words that a model puts around an answer without changing it."""
    forms = [
        "{}",
        "{}",
        "{}",
        "${}$",
        r"\({}\)",
        r"\displaystyle {}",
        "{{{}}}",
        r"\boxed{{{}}}",
        " {} ",
        "${}$.",
    ]
    return draw.choice(forms).format(text)


def small(draw: random.Random) -> Any:
    return sp.Integer(
        draw.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 18, 20, 24, 25, 36, 45, 72, 100])
    )


def leaf(draw: random.Random) -> Any:
    return draw.choice(
        [
            small(draw),
            -small(draw),
            small(draw) / small(draw),
            sp.sqrt(small(draw)),
            sp.pi,
            sp.log(small(draw)),
            sp.E ** draw.choice([1, -1, 2]),
            sp.root(small(draw), 3),
        ]
    )


def number(draw: random.Random, depth: int = 2) -> Any:
    if depth == 0:
        return leaf(draw)
    a, b = number(draw, depth - 1), leaf(draw)
    return draw.choice([a + b, a - b, a * b, a / b, a + b, a * b])


def term(draw: random.Random, symbols: list[Any]) -> Any:
    return small(draw) * draw.choice(symbols) ** draw.choice([1, 1, 2, 3])


def expression(draw: random.Random) -> Any:
    symbols: list[Any] = draw.choice([[X], [X], [X, Y]])
    a, b = (draw.choice(symbols) + draw.choice([-1, 1]) * small(draw) for _ in range(2))
    polynomial = sum((term(draw, symbols) for _ in range(draw.choice([1, 2, 3]))), small(draw))
    return draw.choice(
        [
            polynomial,
            a * b * small(draw),
            polynomial / a,
            a / (b**2 + 1),
            sp.sin(X) * sp.cos(X) * small(draw),
            small(draw) * sp.sin(X) ** 2 + small(draw),
            sp.exp(X) * a,
            sp.log(X**2 + small(draw)) + b,
            a**2 - b,
        ]
    )


def branching(draw: random.Random) -> Any:
    """A function with several branches, far from or near the origin."""
    at = draw.choice([0, 1, 2, 5, 17, 40, 250]) * draw.choice([1, -1])
    return draw.choice(
        [
            sp.Abs(X - at),
            sp.sqrt((X - at) ** 2, evaluate=False),
            sp.floor(X / small(draw)),
            sp.ceiling(X - sp.Rational(at, 3)),
            sp.Abs(X - at) + sp.Abs(X + small(draw)),
            X * sp.Abs(X) / small(draw),
            sp.Abs(X**2 - at**2 - 1),
            sp.Abs(X * Y) + at,
        ]
    )


IDENTITIES: list[Callable[[Any], Any]] = [
    sp.expand,
    sp.factor,
    sp.together,
    sp.apart,
    sp.radsimp,
    sp.expand_trig,
    sp.trigsimp,
    sp.expand_log,
    sp.simplify,
    lambda e: e.rewrite(sp.tan) if e.has(sp.sin) else e,
    lambda e: sp.Mul(sp.expand(2 * e), sp.Rational(1, 2), evaluate=False),
    lambda e: sp.Add(e + 7, -7, evaluate=False),
]


def rewrite(draw: random.Random, value: Any) -> Any:
    for identity in draw.sample(IDENTITIES, len(IDENTITIES)):
        try:
            other = identity(value)
        except (
            Exception
        ):  # an identity that does not apply, such as partial fractions of two variables
            continue
        if other != value:
            return other
    return value


def change(draw: random.Random, value: Any) -> Any:
    """The value with one part changed."""
    parts = sorted(
        (a for a in sp.preorder_traversal(value) if a.is_Integer and abs(a) > 1), key=str
    )
    options = [-value, value + draw.choice([1, -1]), value * 2, value / 3]
    if parts:
        part = draw.choice(parts)
        options += [value.xreplace({part: part + draw.choice([-1, 1])})] * 4
        options += [value.xreplace({part: -part})]
    if value.has(sp.Abs, sp.floor, sp.ceiling) or "sqrt" in str(value):
        bare = value.replace(sp.Abs, lambda a: a).replace(sp.floor, lambda a: a)
        bare = bare.replace(sp.ceiling, lambda a: a)
        bare = bare.replace(
            lambda e: e.is_Pow and e.exp == sp.Rational(1, 2), lambda e: sp.sqrt(sp.factor(e.base))
        )
        swapped = value.replace(sp.floor, sp.ceiling)
        options += [bare, bare, -bare, swapped, sp.Integer(0)] * 2
    return draw.choice(options)


def values(value: Any) -> list[Any]:
    points = [{X: x, Y: 1.7 * x + 0.3} for x in POINTS]
    symbols: set[Any] = getattr(value, "free_symbols", set())
    return [sp.N(value.subs(p), 40) for p in (points if symbols else points[:1])]


def differ(a: Any, b: Any) -> bool | None:
    """Whether two values differ at a point; None: neither can be shown."""
    gaps = []
    for u, v in zip(values(a), values(b), strict=False):
        if (
            not (u.is_number and v.is_number)
            or u.has(sp.zoo, sp.nan, sp.oo)
            or v.has(sp.zoo, sp.nan, sp.oo)
        ):
            return None
        if not (u.is_real and v.is_real):
            return None
        gaps.append(abs(u - v) / max(abs(u), abs(v), sp.Float("1e-200")))
    if any(gap > sp.Float("1e-6") for gap in gaps):
        return True
    return False if all(gap < sp.Float("1e-25") for gap in gaps) else None


def values_pair(
    kind: str, make: Callable[[random.Random], Any]
) -> Callable[[random.Random, bool], Pair | None]:
    def pair(draw: random.Random, equal: bool) -> Pair | None:
        gold = make(draw)
        if gold.has(sp.zoo, sp.nan) or (not gold.free_symbols and not gold.is_real):
            return None
        other = rewrite(draw, gold) if equal else change(draw, gold)
        if (len(values(gold)) > 1) != (len(values(other)) > 1):
            other = other + 0 * X
        if differ(gold, other) is not (not equal):
            return None
        return Pair(kind, plain(gold), wrap(draw, draw.choice(PRINTERS)(other)), equal)

    return pair
