"""Parses what begins with a backslash in an expression: `\\frac`, `\\sqrt`, functions, Greek letters, marks on a letter.

`\\log` without a base is the natural logarithm, `\\lg` the one to base 10. An exponent of -1 on a trigonometric or
hyperbolic function is its inverse: `\\sin^{-1} x` is the arc sine, `\\sin^2 x` the square of the sine.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from vlrft.grading.math.cursor import Cursor
from vlrft.grading.math.expression import Expr, inverse
from vlrft.grading.math.numerals import UnreadableError

_INVERTIBLE = {"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch"}  # fmt: skip
FUNCTIONS = _INVERTIBLE | {f"a{name}" for name in _INVERTIBLE} | {"log", "lg", "ln", "exp"}
_LISTED = {"min", "max"}  # functions of a list
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Sigma", "Phi", "Psi", "Omega", "hbar", "ell", "emptyset", "iota", "upsilon", "vartheta", "varrho",
}  # fmt: skip
_MARKS = {
    "dot", "ddot", "bar", "hat", "vec", "overline", "mathrm", "tilde", "widetilde", "widehat", "overrightarrow",
    "mathbb", "mathcal", "mathscr", "mathfrak",
}  # fmt: skip
COMMANDS = FUNCTIONS | _LISTED | GREEK | _MARKS | {"frac", "sqrt", "binom", "pi", "infty"}
_HALF: Expr = ("num", Fraction(1, 2))
_MINUS_ONE: Expr = ("num", Fraction(-1))
_TEN: Expr = ("num", Fraction(10))


class Reader(Protocol):
    """The parser of expressions, as far as commands need it."""

    cursor: Cursor

    def sum(self) -> Expr: ...
    def power(self) -> Expr: ...
    def exponent(self) -> Expr: ...
    def argument(self, *, digit: bool = False) -> Expr: ...
    def group(self) -> Expr: ...
    def symbol(self, name: str) -> Expr: ...
    def starts_atom(self) -> bool: ...


def read_command(name: str, reader: Reader) -> Expr:
    """The expression of the command, whose token is passed already. Raises UnreadableError."""
    if name == "frac":
        top, bottom = reader.argument(digit=True), reader.argument(digit=True)
        return ("mul", top, inverse(bottom))
    if name == "sqrt":
        return _read_root(reader)
    if name == "binom":
        return ("fn", "binom", reader.argument(digit=True), reader.argument(digit=True))
    if name in FUNCTIONS:
        return _read_function(name, reader)
    if name in _LISTED:
        return ("fn", name, *_read_list(reader))
    if name in ("pi", "infty"):
        return ("const", name)
    if name in _MARKS:
        return _read_mark(name, reader)
    if name in GREEK:
        return reader.symbol(name)
    raise UnreadableError(name)


def _read_mark(name: str, reader: Reader) -> Expr:
    inner = reader.argument()
    if inner[0] == "sym":
        return reader.symbol(inner[1] if name == "mathrm" else f"{name} {inner[1]}")
    if inner[0] == "const" and name == "mathrm":
        return inner
    raise UnreadableError(name)


def _read_root(reader: Reader) -> Expr:
    index = reader.group() if reader.cursor.next == "[" else None
    inner = reader.argument()
    if index is None:
        return ("pow", inner, _HALF)
    if index[0] == "num" and index[1] % 2 == 1 and index[1] > 1:
        return ("fn", "root", inner, index)  # ∛(−8) is the real −2
    return ("pow", inner, inverse(index))


def _read_list(reader: Reader) -> Sequence[Expr]:
    """`(a, b)` or `\\{a, b\\}`."""
    opening = reader.cursor.take()
    closing = {"(": ")", r"\{": r"\}"}.get(opening)
    items = [reader.sum()]
    while reader.cursor.take_all(","):
        items.append(reader.sum())
    if closing is None or not reader.cursor.take_all(closing):
        raise UnreadableError("a list")
    return items


def _read_function(name: str, reader: Reader) -> Expr:
    cursor = reader.cursor
    power: Expr | None = None
    base: Expr | None = None
    while cursor.next in ("^", "_"):
        if cursor.take() == "^":
            power = reader.exponent()
        else:
            base = reader.argument()
    if power == _MINUS_ONE:
        if name not in _INVERTIBLE:
            raise UnreadableError("an inverse function")
        name, power = f"a{name}", None
    if base is not None and name != "log":
        raise UnreadableError(name)
    if name == "lg":
        base = _TEN
    inner = _read_operand(reader)
    expr: Expr = ("fn", name, inner)
    if base is not None:
        expr = ("mul", ("fn", "ln", inner), inverse(("fn", "ln", base)))
    return expr if power is None else ("pow", expr, power)


def _read_operand(reader: Reader) -> Expr:
    """The operand of a function: a bracket, or the product up to the next function: `\\sin 2x \\cos x`."""
    if reader.cursor.next in ("(", "[", "{"):
        return reader.group()
    factors = [reader.power()]
    while reader.starts_atom() and reader.cursor.next.removeprefix("\\") not in FUNCTIONS:
        factors.append(reader.power())
    return factors[0] if len(factors) == 1 else ("mul", *factors)
