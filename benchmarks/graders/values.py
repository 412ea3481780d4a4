"""The value of a gold answer, which decides without a grader whether two answers are equal.

A rational number is read from its digits; any other expression is translated from LaTeX to Python
and evaluated at two points. For gold answers only: text written by a model is never evaluated.
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
    tokens = re.findall(r"[0-9]+(?:\.[0-9]+)?|§[a-z]+|√|\*\*|[a-zA-Zπ]|\S", code)
    parts: list[str] = []
    for token in tokens:
        operand = token[0].isalnum() or token[0] in "(√§"
        if (
            parts
            and operand
            and (parts[-1][-1].isalnum() or parts[-1] == ")")
            and parts[-1][0] not in "√§"
        ):
            parts.append("*")
        parts.append(token)
    program = " ".join(parts).replace("√", "root").replace("§", "").replace("π", "pi")
    results = [_evaluate(program, shift) for shift in (0.0, 0.37)]
    if any(result is None for result in results):
        return None
    return complex(results[0] or 0), complex(results[1] or 0)


def _evaluate(program: str, shift: float) -> complex | None:
    """The program's value, with a different number for each letter."""
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
        return complex(eval(program, {"__builtins__": {}}, names))  # gold answers are trusted text
    except (SyntaxError, TypeError, ArithmeticError, NameError):
        return None


def same(a: tuple[complex, complex] | None, b: tuple[complex, complex] | None) -> bool:
    """Whether two values may be equal: within rounding errors, or unknown."""
    if a is None or b is None:
        return True
    return all(abs(x - y) <= 1e-9 * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def factors(n: int) -> list[int]:
    """Factors of n, of which 2, 3, 5 and 7 are split off."""
    result = []
    while n > 1:
        result.append(next((p for p in (2, 5, 3, 7) if n % p == 0), n))
        n //= result[-1]
    return result


def number(text: str) -> Fraction | None:
    """The rational number that the digits of `text` say; None: it is something else."""
    bare = re.sub(r"\s", "", text).replace(",\\!", "").replace("\\!", "")
    if match := re.fullmatch(r"(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", bare):
        return Fraction(int(match[1] + match[2]), int(match[3]))
    if re.fullmatch(r"-?[0-9]+/[0-9]+|-?[0-9]+(?:\.[0-9]+)?|-?[0-9]{1,3}(?:,[0-9]{3})+", bare):
        return Fraction(bare.replace(",", ""))
    if match := re.fullmatch(r"(-?[0-9.]+)(?:e|\\times10\^)\{?(-?[0-9]{1,2})\}?", bare):
        return Fraction(match[1]) * Fraction(10) ** int(match[2])
    return None
