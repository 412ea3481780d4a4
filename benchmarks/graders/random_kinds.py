"""Random pairs of other kinds: numerals, far constants, inverse functions, notations."""

from __future__ import annotations

import random

import sympy as sp  # type: ignore[import-untyped]

from benchmarks.graders.random_values import (
    Pair,
    plain,
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
