"""Random pairs of other kinds: numerals, far constants, inverse functions, relations, collections, notations."""

from __future__ import annotations

import random
from typing import Any

import sympy as sp  # type: ignore[import-untyped]

from benchmarks.graders.random_values import (
    PRINTERS,
    Pair,
    X,
    Y,
    differ,
    leaf,
    plain,
    rewritten,
    small,
    wide,
    wrap,
)


def numerals(draw: random.Random, equal: bool) -> Pair | None:
    """Forms of rational numbers."""
    value = sp.Rational(
        draw.randint(-4000, 40000), draw.choice([1, 1, 1, 2, 4, 5, 8, 20, 125, 3, 7, 12])
    )
    other = (
        value
        if equal
        else draw.choice(
            [
                value + sp.Rational(1, 2),
                -value,
                value * 10,
                value + 1,
                1 / value if value else value + 2,
            ]
        )
    )
    if (other == value) is not equal:
        return None
    whole, rest = divmod(abs(other.p), other.q)
    sign = "-" if other < 0 else ""
    forms = [plain(other), wide(other), f"{other.p}/{other.q}" if other.q > 1 else f"{other.p}"]
    if other.q in (1, 2, 4, 5, 8, 20, 125):
        decimal = f"{float(other):.6f}".rstrip("0").rstrip(".")
        forms += [
            decimal,
            decimal + ("0" if "." in decimal else ".0"),
            f"{100 * float(other):.6g}\\%" if abs(other) < 5 else decimal,
        ]
        if abs(other) >= 1000:
            grouped = f"{float(other):,.6f}".rstrip("0").rstrip(".")
            forms += [
                grouped,
                grouped.replace(",", "{,}"),
                grouped.replace(",", r"\,"),
                f"{float(other):.10e}".replace("e", r" \times 10^{") + "}",
            ]
    if whole and rest:
        forms += [rf"{sign}{whole}\frac{{{rest}}}{{{other.q}}}", f"{sign}{whole} {rest}/{other.q}"]
    return Pair(
        "numerals", draw.choice([plain(value), wide(value)]), wrap(draw, draw.choice(forms)), equal
    )


def far_constants(draw: random.Random, equal: bool) -> Pair | None:
    """Very small and very large constants, also irrational ones."""
    base = draw.choice([sp.Integer(2), sp.Integer(3), sp.Integer(7), sp.E, sp.pi])
    n = draw.choice([60, 150, 200, 300])
    sign = draw.choice([1, -1])
    value = base ** (sign * n) * draw.choice([1, sp.sqrt(2), 3])
    step = draw.choice([1, 2, 5])
    other = value * base**step
    text = rf"{plain(base)}^{{{step}}} \cdot {plain(value)}" if equal else plain(other)
    gold = plain(other) if equal else plain(value)
    if draw.random() < 0.5:  # as a power, not as its digits
        gold, text = (t.replace(plain(base**n), f"{plain(base)}^{{{n}}}") for t in (gold, text))
    return Pair("far constants", gold, text, equal)


def inverse(draw: random.Random, equal: bool) -> Pair | None:
    p, q = sorted(draw.sample(range(1, 15), 2))
    name = draw.choice(["sin", "cos", "tan"])
    arc = rf"\arc{name}\left(\frac{{{p}}}{{{q}}}\right)"
    power = rf"\{name}^{{-1}}\left(\frac{{{p}}}{{{q}}}\right)"
    function = {"sin": sp.asin, "cos": sp.acos, "tan": sp.atan}[name]
    if equal:
        turned = sp.pi / 2 - {"sin": sp.acos, "cos": sp.asin}.get(name, lambda r: sp.atan(1 / r))(
            sp.Rational(p, q)
        )
        answer = draw.choice(
            [
                power,
                power.replace(r"\left", "").replace(r"\right", ""),
                plain(turned),
                rf"\text{{arc{name}}}({p}/{q})",
                rf"\arc{name}\frac{{{p}}}{{{q}}}",
            ]
        )
        return Pair("inverse functions", draw.choice([arc, power, arc]), wrap(draw, answer), True)
    other = draw.choice(
        [
            rf"\frac{{1}}{{\{name}({p}/{q})}}",
            rf"\{name}\left(\frac{{{p}}}{{{q}}}\right)",
            arc.replace(f"{{{p}}}", f"{{{p + q}}}"),
            rf"-{power}",
            plain(function(sp.Rational(p, q)) + sp.pi),
        ]
    )
    return Pair("inverse functions", arc, wrap(draw, other), False)


def line(draw: random.Random, equal: bool) -> Pair | None:
    a, b, c = (sp.Integer(draw.choice([-7, -5, -4, -3, -2, 2, 3, 4, 5, 6, 9])) for _ in range(3))
    gold = sp.Eq(a * X + b * Y, c)
    if equal:
        k = draw.choice([2, -1, 3, sp.Rational(1, 2)])
        other = draw.choice(
            [
                sp.Eq(k * a * X + k * b * Y, k * c),
                sp.Eq(a * X + b * Y - c, 0),
                sp.Eq(Y, (c - a * X) / b),
                sp.Eq(c - b * Y, a * X),
            ]
        )
    else:
        other = draw.choice(
            [
                sp.Eq(a * X + b * Y, c + 1),
                sp.Eq(a * X - b * Y, c),
                sp.Eq((a + 1) * X + b * Y, c),
                sp.Eq(Y, (c + a * X) / b),
            ]
        )
    return Pair("equations", plain(gold), wrap(draw, draw.choice([plain, wide])(other)), equal)


def inequality(draw: random.Random, equal: bool) -> Pair | None:
    a = small(draw) * draw.choice([1, -1])
    sign, flip = draw.choice([("<", ">"), (">", "<"), (r"\le", r"\ge"), (r"\geq", r"\leq")])
    loose = {"<": r"\le", ">": r"\ge", r"\le": "<", r"\ge": ">", r"\leq": "<", r"\geq": ">"}
    gold = f"x {sign} {plain(a)}"
    side = {
        "<": rf"(-\infty, {a})",
        ">": rf"({a}, \infty)",
        r"\le": rf"(-\infty, {a}]",
        r"\geq": rf"[{a}, \infty)",
    }
    if equal:
        answer = draw.choice(
            [
                f"{plain(a)} {flip} x",
                f"-x {flip} {plain(-a)}",
                f"2x {sign} {plain(2 * a)}",
                side[sign],
            ]
        )
    else:
        answer = draw.choice(
            [
                f"x {flip} {plain(a)}",
                f"x {loose[sign]} {plain(a)}",
                f"-x {sign} {plain(-a)}",
                f"x {sign} {plain(a + 1)}",
            ]
        )
    return Pair("inequalities", gold, wrap(draw, answer), equal)


def bare_relation(draw: random.Random, equal: bool) -> Pair | None:
    """Gold answers that state a relation between numbers."""
    p, q = draw.randint(10, 99), draw.choice([3, 7, 9, 11, 13])
    value = sp.Rational(p, q)
    if value.q == 1:
        return None
    rounded = f"{float(value):.2f}"
    gold = rf"{plain(value)} \approx {rounded}"
    if equal:
        return Pair(
            "bare relations",
            gold,
            wrap(draw, draw.choice([plain(value), rounded, rf"{p}/{q}", wide(value)])),
            True,
        )
    answer = draw.choice(
        [
            "1=2",
            "0=0",
            "1 < 2",
            r"1 \approx 1",
            plain(value + 1),
            f"{float(value) + 0.5:.2f}",
            rf"{plain(value)} = {plain(value + 1)}",
            "2+2=4",
        ]
    )
    return Pair("bare relations", gold, wrap(draw, answer), False)


def collection(draw: random.Random, equal: bool) -> Pair | None:
    items = [leaf(draw) for _ in range(draw.choice([2, 3]))]
    if any(differ(a, b) is not True for k, a in enumerate(items) for b in items[:k]):
        return None
    kind = draw.choice(["tuple", "set", "interval", "matrix"])
    if kind == "interval":
        items = sorted(items[:2], key=lambda v: float(v))
    texts = [plain(item) for item in items]
    others = [
        draw.choice(PRINTERS)(rewritten(draw, item) if draw.random() < 0.3 else item)
        for item in items
    ]
    ends = (
        draw.choice(["()", "[]", "(]", "[)"])
        if kind == "interval"
        else {
            "tuple": "()",
            "set": ["\\{", "\\}"],
            "matrix": [r"\begin{pmatrix} ", r" \end{pmatrix}"],
        }[kind]
    )
    joint = r" \\ " if kind == "matrix" else ", "
    gold = f"{ends[0]}{joint.join(texts)}{ends[1]}"
    answer_ends: Any = ends
    if equal:
        if kind == "set":
            draw.shuffle(others)
        if kind == "matrix":
            answer_ends = draw.choice([ends, [r"\begin{bmatrix}", r"\end{bmatrix}"]])
        if kind in ("tuple", "interval") and draw.random() < 0.4:
            answer_ends = [rf"\left{ends[0]}", rf"\right{ends[1]}"]
    else:
        how = draw.choice(["order", "drop", "change", "ends"])
        if how == "order" and kind != "set":
            others = others[::-1]
        elif how == "drop":
            others = others[:-1] if len(others) > 2 else [*others, "17"]
        elif how == "ends" and kind == "interval":
            answer_ends = draw.choice([e for e in ("()", "[]", "(]", "[)") if e != ends])
        else:
            others[0] = plain(items[0] + 1)
            if differ(items[0] + 1, items[-1]) is not True:
                return None
    return Pair(
        kind, gold, wrap(draw, f"{answer_ends[0]}{joint.join(others)}{answer_ends[1]}"), equal
    )


def notation(draw: random.Random, equal: bool) -> Pair | None:
    """Signs and wrappers around one number."""
    n = draw.randint(2, 500)
    forms = [
        rf"\$ {n}",
        rf"$\$ {n}$",
        rf"\textbf{{{n}}}",
        rf"x = \textbf{{{n}}}",
        rf"\mathrm{{{n}}}",
    ]
    forms += [rf"\boxed{{{n}}}", rf"\text{{{n}}}", rf"{n}\textnormal{{ miles}}", rf"\mathbf{{{n}}}"]
    forms += [f"n = {n}", f"{n}.", f"+{n}", rf"{n}^{{1}}", rf"\left({n}\right)", f"{n}", rf"{n}\,"]
    forms += [f"∛{n**3}", rf"\sqrt[3]{{{n**3}}}", f"√{n**2}", f"{n}⁄1", f"{2 * n}⁄2"]
    text = draw.choice(forms)
    if not equal:
        text = text.replace(str(n), str(n + 1)) if str(n) in text else text + "0"
    last = rf"$\$ {n}$" if "\\$" in text else f"{n}"
    golds = [f"{n}", rf"\boxed{{{n}}}", rf"\text{{{n}}}", last]
    return Pair("notations", draw.choice(golds), text, equal)
