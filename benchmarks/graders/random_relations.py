"""Random pairs of relations and collections: lines, inequalities, bare relations, sets, points and intervals."""

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
    rewrite,
    small,
    wide,
    wrap,
)


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
        draw.choice(PRINTERS)(rewrite(draw, item) if draw.random() < 0.3 else item)
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
