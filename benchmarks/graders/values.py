"""What a gold answer is worth, for `graders.py` to tell equal from unequal without asking a grader.

A rational number by its digits; another expression by a small translation of LaTeX to Python,
evaluated at two points. For gold answers only: what a model wrote never comes here.
"""

from __future__ import annotations

import cmath
import math
import re
from fractions import Fraction

_INNER = r"\{([^{}]*)\}"


def values(text: str) -> tuple[complex, complex] | None:
    """The expression's value at two points, by translation to Python; None when that fails."""
    code = (
        text.replace("\\left", "")
        .replace("\\right", "")
        .replace("√", "\\sqrt")
        .replace("π", "\\pi ")
    )
    code = re.sub(r"\\[!,; ]|\\[dt](?=frac)", lambda m: "\\" if m[0][1:].isalpha() else "", code)
    code = re.sub(r"\\frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}", code)
    code = re.sub(r"\\frac\s*([0-9])\s*\{", r"\\frac{\1}{", code)
    code = re.sub(r"\\sqrt\s*([0-9])", r"\\sqrt{\1}", code)
    code = re.sub(r"(?<![\d.])([0-9]+)\s*\\frac\{([0-9]+)\}\{([0-9]+)\}", r"(\1+\2/\3)", code)
    before = ""
    while before != code:
        before = code
        code = re.sub(rf"\\frac\s*{_INNER}\s*{_INNER}", r"((\1)/(\2))", code)
        code = re.sub(rf"\\sqrt\s*{_INNER}", r"(√(\1))", code)
        code = re.sub(rf"\^\s*{_INNER}", r"**(\1)", code)
        code = re.sub(r"\\(sin|cos)\s*\(", r"§\1(", code)
    code = (
        code.replace("^", "**")
        .replace("\\cdot", "*")
        .replace("\\times", "*")
        .replace("\\pi", " π ")
    )
    if "\\" in code or "{" in code or not re.fullmatch(r"[\w\s+\-*/().√§π]*", code) or "_" in code:
        return None
    marks = re.findall(r"[0-9]+(?:\.[0-9]+)?|§[a-z]+|√|\*\*|[a-zA-Zπ]|\S", code)
    spelled: list[str] = []
    for mark in marks:
        operand = mark[0].isalnum() or mark[0] in "(√§"
        if (
            spelled
            and operand
            and (spelled[-1][-1].isalnum() or spelled[-1] == ")")
            and spelled[-1][0] not in "√§"
        ):
            spelled.append("*")
        spelled.append(mark)
    program = " ".join(spelled).replace("√", "root").replace("§", "").replace("π", "pi")
    found = [_at(program, shift) for shift in (0.0, 0.37)]
    if any(one is None for one in found):
        return None
    return complex(found[0] or 0), complex(found[1] or 0)


def _at(program: str, shift: float) -> complex | None:
    """The program's value, each letter standing for a number of its own."""
    letters = {
        c: 1.13 + 0.171 * k + shift * (1 + k % 3)
        for k, c in enumerate("abcdefghijklmnopqrstuvwxyz")
    }
    letters |= {c.upper(): v + 0.0713 for c, v in letters.items()}
    names = {
        **letters,
        "e": math.e,
        "i": 1j,
        "pi": math.pi,
        "root": cmath.sqrt,
        "sin": cmath.sin,
        "cos": cmath.cos,
    }
    if re.search(r"\*\* *\(?-? *[0-9]{4}|[0-9]{16}", program):
        return None
    try:
        return complex(eval(program, {"__builtins__": {}}, names))  # the gold answers are our own
    except (SyntaxError, TypeError, ArithmeticError, NameError):
        return None


def same(a: tuple[complex, complex] | None, b: tuple[complex, complex] | None) -> bool:
    """Whether they may be equal: closer than floats can tell, or unknown."""
    if a is None or b is None:
        return True
    return all(abs(x - y) <= 1e-9 * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def factors(n: int) -> list[int]:
    found = []
    while n > 1:
        found.append(next((p for p in (2, 5, 3, 7) if n % p == 0), n))
        n //= found[-1]
    return found


def number(text: str) -> Fraction | None:
    """A rational number by its digits alone."""
    bare = re.sub(r"\s", "", text).replace(",\\!", "").replace("\\!", "")
    if found := re.fullmatch(r"(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", bare):
        return Fraction(int(found[1] + found[2]), int(found[3]))
    if re.fullmatch(r"-?[0-9]+/[0-9]+|-?[0-9]+(?:\.[0-9]+)?|-?[0-9]{1,3}(?:,[0-9]{3})+", bare):
        return Fraction(bare.replace(",", ""))
    if found := re.fullmatch(r"(-?[0-9.]+)(?:e|\\times10\^)\{?(-?[0-9]{1,2})\}?", bare):
        return Fraction(found[1]) * Fraction(10) ** int(found[2])
    return None
