"""Parses tokens as one mathematical expression (see `expression`), or None.

Every token must be part of it; nothing is skipped. Adjacent letters are multiplied, `2\\frac12` is a mixed number,
`e` is Euler's number and `i` the imaginary unit. A letter before parentheses is multiplied as well: `f(x)` equals
`x f`; but `f(0)` is a name. `commands` parses what begins with a backslash.
"""

from __future__ import annotations

from fractions import Fraction

from vlrft.grading.math.commands import COMMANDS, read_command
from vlrft.grading.math.cursor import Cursor
from vlrft.grading.math.expression import Expr, depth, inverse, negative, with_sign
from vlrft.grading.math.numerals import UnreadableError, number_value, read_number, starts_number

MAX_TOKENS = 400
MAX_DEPTH = 100  # of the tree, which is walked by recursion; a fraction is three levels
_SIGNS = ("+", "-", "±", "∓")
_CLOSING = {
    "(": ")",
    "[": "]",
    "{": "}",
    r"\{": r"\}",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
    "|": "|",
}


def read_formula(tokens: list[str]) -> Expr | None:
    """The expression that all the tokens form; None when they form none."""
    if not tokens or len(tokens) > MAX_TOKENS:
        return None
    reader = _Reader(tokens)
    try:
        expr = reader.sum()
    except UnreadableError:
        return None
    return expr if reader.cursor.done and depth(expr) <= MAX_DEPTH else None


class _Reader:
    """Recursive descent with the usual precedence: sum, product, sign, power, atom."""

    def __init__(self, tokens: list[str]) -> None:
        self.cursor = Cursor(tokens)
        self._bars = 0  # open |; the next | then closes

    def sum(self) -> Expr:
        cursor = self.cursor
        terms = [self._signed()]
        while cursor.next in _SIGNS:
            sign = cursor.take()
            terms.append(with_sign(sign, self._product()))
        expr: Expr = terms[0] if len(terms) == 1 else ("add", *terms)
        if not cursor.take_all(r"\over"):
            return expr
        with cursor.deeper():
            return ("mul", expr, inverse(self.sum()))

    def _signed(self) -> Expr:
        sign = self.cursor.take() if self.cursor.next in _SIGNS else "+"
        return with_sign(sign, self._product())

    def _product(self) -> Expr:
        cursor = self.cursor
        factors = [self.power()]
        while True:
            if cursor.next == "/":
                cursor.take()
                factors.append(inverse(self._operand()))
            elif cursor.next == r"\cdot":
                cursor.take()
                factors.append(self._operand())
            elif self.starts_atom():
                factors.append(self.power())
            else:
                return factors[0] if len(factors) == 1 else ("mul", *factors)

    def _operand(self) -> Expr:
        """A factor after an operator, which may have a minus sign."""
        if self.cursor.next == "-":
            self.cursor.take()
            return negative(self.power())
        return self.power()

    def starts_atom(self) -> bool:
        """Whether the next token begins a factor without an operator before it."""
        cursor = self.cursor
        token = cursor.next
        if token == "|":
            return self._bars == 0
        if token in ("(", "[", "{", r"\lfloor", r"\lceil"):
            return True
        if token[:1].isdigit():  # `n 2^n` and `2! 4!`, but not `6 7` or `x10`
            before, *after = cursor.tokens[cursor.place - 1 : cursor.place + 2]
            return before == "!" or (after[1:] == ["^"] and not before[0].isdigit())
        return token.isalpha() or (token[:1] == "\\" and token[1:] in COMMANDS)

    def power(self) -> Expr:
        cursor = self.cursor
        base = self._atom()
        while True:
            if cursor.next == "^":
                cursor.take()
                if cursor.take_all(r"\circ") or cursor.take_all("{", r"\circ", "}"):
                    base = ("deg", base)
                else:
                    base = ("pow", base, self.exponent())
            elif cursor.next == "!":
                cursor.take()
                base = ("fn", "factorial", base)
            elif cursor.next == "%":
                cursor.take()
                base = ("mul", base, ("num", Fraction(1, 100)))
            else:
                return base

    def exponent(self) -> Expr:
        cursor = self.cursor
        with cursor.deeper():
            if cursor.next in ("-", "+"):
                sign = cursor.take()
                return with_sign(sign, self.power())
            if cursor.next in ("{", "("):
                return self.power()
            base = self._atom()
            return ("pow", base, self.exponent()) if cursor.take_all("^") else base

    def argument(self, *, digit: bool = False) -> Expr:
        """A command's argument: a braced expression, or the next token; with `digit`, one digit of a number."""
        cursor = self.cursor
        if cursor.next == "{":
            return self.group()
        token = cursor.next
        if digit and token.isdigit() and len(token) > 1:
            cursor.tokens[cursor.place : cursor.place + 1] = [token[0], token[1:]]
        if cursor.next[:1].isdigit():
            return ("num", number_value(cursor.take()))
        return self._atom()

    def group(self) -> Expr:
        """An expression in the brackets that open next."""
        with self.cursor.deeper():
            opening = self.cursor.take()
            outside, self._bars = self._bars, int(opening == "|")
            inner = self.sum()
            self.cursor.take(_CLOSING[opening])
            self._bars = outside
        kind = {"|": "abs", r"\lfloor": "floor", r"\lceil": "ceil", r"\{": ""}.get(opening)
        if kind == "":
            raise UnreadableError("a set")
        return ("fn", kind, inner) if kind else inner

    def symbol(self, name: str) -> Expr:
        """The letter with the index, primes and number in parentheses that follow it."""
        cursor = self.cursor
        if name in ("e", "i") and cursor.next != "_":
            return ("const", name)
        if cursor.next == "_":
            cursor.take()
            name += "_" + self._subscript()
        while cursor.next == "'":
            name += cursor.take()
        call = cursor.tokens[cursor.place : cursor.place + 3]
        if len(call) == 3 and call[0] == "(" and call[1].isdigit() and call[2] == ")":
            cursor.place += 3
            name += "".join(call)  # f(0) is no product
        return ("sym", name)

    def _subscript(self) -> str:
        token = self.cursor.take()
        if token != "{":
            return token
        inside = []
        while self.cursor.next != "}":
            inside.append(self.cursor.take())
            if inside[-1] == "{":
                raise UnreadableError("subscript")
        self.cursor.take("}")
        return "".join(inside)

    def _atom(self) -> Expr:
        cursor = self.cursor
        if cursor.next in _CLOSING:
            return self.group()
        with cursor.deeper():
            token = cursor.take()
            if starts_number(cursor.tokens, cursor.place - 1):
                return self._number(cursor.place - 1)
            if token.isalpha() and len(token) == 1:
                return self.symbol(token)
            if token.startswith("\\"):
                return read_command(token[1:], self)
            raise UnreadableError(token)

    def _number(self, start: int) -> Expr:
        """A number; a whole one directly before a proper \\frac of digits is a mixed number."""
        cursor = self.cursor
        value, cursor.place = read_number(cursor.tokens, start)
        end = cursor.place
        if end == start + 1 and cursor.tokens[start].isdigit() and cursor.take_all(r"\frac"):
            try:
                top, bottom = self.argument(digit=True), self.argument(digit=True)
            except UnreadableError:
                cursor.place = end
                return ("num", value)
            if top[0] == bottom[0] == "num" and 0 < top[1] < bottom[1]:
                return ("num", value + top[1] / bottom[1])
            cursor.place = end
        return ("num", value)
