"""Parses tokens as one mathematical expression (see `expression`), or None.

Every token must be part of it; nothing is skipped. Adjacent letters are multiplied, `2\\frac12` is a mixed number,
`e` is Euler's number and `i` the imaginary unit. A letter before parentheses is multiplied as well: `f(x)` equals
`x f`; but `f(0)` is a name. `\\log` without a base is the natural logarithm.
"""

from __future__ import annotations

from fractions import Fraction

from vlrft.grading.math.expression import Expr, inverse, is_negative, negative, with_sign
from vlrft.grading.math.numerals import UnreadableError, number_value, read_number, starts_number

MAX_TOKENS = 400
MAX_DEPTH = 40

FUNCTIONS = {"sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "asin", "acos", "atan"}
_GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi",
    "Sigma", "Phi", "Psi", "Omega", "hbar", "ell", "emptyset",
}  # fmt: skip
_MARKS = {"dot", "ddot", "bar", "hat", "vec", "overline", "mathrm"}  # on a symbol
_COMMANDS = FUNCTIONS | _GREEK | _MARKS | {"frac", "sqrt", "binom", "pi", "infty"}
_CLOSING = {
    "(": ")",
    "[": "]",
    "{": "}",
    r"\{": r"\}",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
    "|": "|",
}
_HALF: Expr = ("num", Fraction(1, 2))


def read_formula(tokens: list[str]) -> Expr | None:
    """The expression that all the tokens form; None when they form none."""
    if not tokens or len(tokens) > MAX_TOKENS:
        return None
    reader = _Reader(tokens)
    try:
        expr = reader.sum()
    except (UnreadableError, RecursionError):
        return None
    return expr if reader.done else None


class _Reader:
    """Recursive descent with the usual precedence: sum, product, sign, power, atom."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = list(tokens)
        self._place = 0
        self._depth = 0
        self._bars = 0  # open |; the next | then closes

    @property
    def done(self) -> bool:
        return self._place == len(self._tokens)

    @property
    def _next(self) -> str:
        return "" if self.done else self._tokens[self._place]

    def _take(self, expected: str | None = None) -> str:
        if self.done or (expected is not None and self._next != expected):
            raise UnreadableError(expected)
        self._place += 1
        return self._tokens[self._place - 1]

    def sum(self) -> Expr:
        terms = [self._signed()]
        while self._next in ("+", "-", "±", "∓"):
            sign = self._take()
            terms.append(with_sign(sign, self._product()))
        return terms[0] if len(terms) == 1 else ("add", *terms)

    def _signed(self) -> Expr:
        sign = self._take() if self._next in ("+", "-", "±", "∓") else "+"
        return with_sign(sign, self._product())

    def _product(self) -> Expr:
        factors = [self._power()]
        while True:
            if self._next == "/":
                self._take()
                factors.append(inverse(self._operand()))
            elif self._next == r"\cdot":
                self._take()
                factors.append(self._operand())
            elif self._starts_atom():
                factors.append(self._power())
            else:
                return factors[0] if len(factors) == 1 else ("mul", *factors)

    def _operand(self) -> Expr:
        """A factor after an operator, which may have a minus sign."""
        if self._next == "-":
            self._take()
            return negative(self._power())
        return self._power()

    def _starts_atom(self) -> bool:
        token = self._next
        if token == "|":
            return self._bars == 0
        if token in ("(", "[", "{", r"\lfloor", r"\lceil"):
            return True
        if token[:1].isdigit():  # `n 2^n`, but not `6 7` or `x10`
            before, *after = self._tokens[self._place - 1 : self._place + 2]
            return after[1:] == ["^"] and not before[0].isdigit()
        return token.isalpha() or (token[:1] == "\\" and token[1:] in _COMMANDS)

    def _power(self) -> Expr:
        base = self._atom()
        while True:
            if self._next == "^":
                self._take()
                if self._next == r"\circ" or self._tokens[self._place : self._place + 3] == [
                    "{",
                    r"\circ",
                    "}",
                ]:
                    self._place += 1 if self._next == r"\circ" else 3
                    base = ("deg", base)
                else:
                    base = ("pow", base, self._exponent())
            elif self._next == "!":
                self._take()
                base = ("fn", "factorial", base)
            elif self._next == "%":
                self._take()
                base = ("mul", base, ("num", Fraction(1, 100)))
            else:
                return base

    def _exponent(self) -> Expr:
        if self._next in ("-", "+"):
            sign = self._take()
            return with_sign(sign, self._power())
        if self._next in ("{", "("):
            return self._power()
        base = self._atom()
        return ("pow", base, self._exponent()) if self._next == "^" and self._take() else base

    def _atom(self) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("too deep")
        expr = self._read_atom()
        self._depth -= 1
        return expr

    def _read_atom(self) -> Expr:
        token = self._take()
        if token in _CLOSING:
            return self._group(token)
        if starts_number(self._tokens, self._place - 1):
            return self._number(self._place - 1)
        if token.isalpha() and len(token) == 1:
            return self._symbol(token)
        if token.startswith("\\"):
            return self._command(token[1:])
        raise UnreadableError(token)

    def _group(self, opening: str) -> Expr:
        outside, self._bars = self._bars, int(opening == "|")
        inner = self.sum()
        self._take(_CLOSING[opening])
        self._bars = outside
        kind = {"|": "abs", r"\lfloor": "floor", r"\lceil": "ceil", r"\{": ""}.get(opening)
        if kind == "":
            raise UnreadableError("a set")
        return ("fn", kind, inner) if kind else inner

    def _number(self, start: int) -> Expr:
        """A number; a whole one directly before a proper \\frac of digits is a mixed number."""
        value, self._place = read_number(self._tokens, start)
        end = self._place
        whole = end == start + 1 and self._tokens[start].isdigit()
        if whole and self._next == r"\frac":
            self._take()
            try:
                top, bottom = self._argument(digit=True), self._argument(digit=True)
            except UnreadableError:
                self._place = end
                return ("num", value)
            if top[0] == bottom[0] == "num" and 0 < top[1] < bottom[1]:
                return ("num", value + top[1] / bottom[1])
            self._place = end
        return ("num", value)

    def _symbol(self, name: str) -> Expr:
        if name in ("e", "i") and self._next != "_":
            return ("const", name)
        if self._next == "_":
            self._take()
            name += "_" + self._subscript()
        while self._next == "'":
            name += self._take()
        call = self._tokens[self._place : self._place + 3]
        if len(call) == 3 and call[0] == "(" and call[1].isdigit() and call[2] == ")":
            self._place += 3
            name += "".join(call)  # f(0) is no product
        return ("sym", name)

    def _subscript(self) -> str:
        token = self._take()
        if token != "{":
            return token
        inside = []
        while self._next != "}":
            inside.append(self._take())
            if inside[-1] == "{":
                raise UnreadableError("subscript")
        self._take("}")
        return "".join(inside)

    def _command(self, name: str) -> Expr:
        if name == "frac":
            top, bottom = self._argument(digit=True), self._argument(digit=True)
            return ("mul", top, inverse(bottom))
        if name == "sqrt":
            return self._root()
        if name == "binom":
            return ("fn", "binom", self._argument(digit=True), self._argument(digit=True))
        if name in FUNCTIONS:
            return self._function(name)
        if name in ("pi", "infty"):
            return ("const", name)
        if name in _MARKS:
            inner = self._argument()
            if inner[0] == "sym":
                return self._symbol(inner[1] if name == "mathrm" else f"{name} {inner[1]}")
            if inner[0] == "const" and name == "mathrm":
                return inner
            raise UnreadableError(name)
        if name in _GREEK:
            return self._symbol(name)
        raise UnreadableError(name)

    def _argument(self, *, digit: bool = False) -> Expr:
        """A command's argument: a braced expression, or the next token; with `digit`, one digit of a number."""
        if self._next == "{":
            return self._group(self._take())
        token = self._next
        if digit and token.isdigit() and len(token) > 1:
            self._tokens[self._place : self._place + 1] = [token[0], token[1:]]
        if self._next[:1].isdigit():
            return ("num", number_value(self._take()))
        return self._atom()

    def _root(self) -> Expr:
        index: Expr | None = None
        if self._next == "[":
            index = self._group(self._take())
        inner = self._argument()
        if index is None:
            return ("pow", inner, _HALF)
        if index[0] == "num" and index[1] % 2 == 1 and is_negative(inner):
            return negative(("pow", negative(inner), inverse(index)))  # ∛(−8) is the real −2
        return ("pow", inner, inverse(index))

    def _function(self, name: str) -> Expr:
        power: Expr | None = None
        base: Expr | None = None
        while self._next in ("^", "_"):
            if self._take() == "^":
                power = self._exponent()
            else:
                base = self._argument()
        if self._next in ("(", "[", "{"):
            inner = self._group(self._take())
        else:
            inner = self._power()
            while self._starts_atom() and self._next.removeprefix("\\") not in FUNCTIONS:
                inner = ("mul", inner, self._power())
        if power == ("num", -1):
            raise UnreadableError("an inverse function")
        expr: Expr = ("fn", name, inner)
        if base is not None:
            if name != "log":
                raise UnreadableError(name)
            expr = ("mul", ("fn", "ln", inner), inverse(("fn", "ln", base)))
        return expr if power is None else ("pow", expr, power)
